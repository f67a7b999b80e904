// Orders in C++: handles that close themselves, errors as exceptions, a transaction with retries.
//     c++ -std=c++17 orders.cc $(pkg-config --cflags --libs indelible) && ./a.out /dev/shm/orders
#include <indelible.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

struct Failed : std::runtime_error {
    explicit Failed(indelible_connection *connection)
        : std::runtime_error(indelible_message(connection)) {
        indelible_error_info info{};
        info.size = sizeof info;
        indelible_error(connection, &info);
        is_retryable = info.is_retryable != 0;
        state = info.state;
    }
    bool is_retryable = false;
    std::string state;
};

void check(int code, indelible_connection *connection = nullptr) {
    if (code != INDELIBLE_OK) throw Failed(connection);
}

template <typename T, int (*close)(T *)>
struct Closes {
    void operator()(T *handle) const { close(handle); }
};
using Database = std::unique_ptr<indelible_database, Closes<indelible_database, indelible_close>>;
using Connection =
    std::unique_ptr<indelible_connection, Closes<indelible_connection, indelible_disconnect>>;
using Statement =
    std::unique_ptr<indelible_statement, Closes<indelible_statement, indelible_finalize>>;

Statement prepare(indelible_connection *connection, const char *sql) {
    indelible_statement *statement;
    check(indelible_prepare(connection, sql, -1, &statement, nullptr), connection);
    return Statement(statement);
}

template <typename Body>
void transaction(indelible_connection *connection, Body body) {
    for (int attempt = 0;; attempt++) {
        try {
            check(indelible_exec(connection, "BEGIN ISOLATION LEVEL SERIALIZABLE", nullptr, nullptr),
                  connection);
            body();
            check(indelible_exec(connection, "COMMIT", nullptr, nullptr), connection);
            return;
        } catch (const Failed &failed) {
            indelible_exec(connection, "ROLLBACK", nullptr, nullptr);
            if (!failed.is_retryable || attempt == 5) throw;
        }
    }
}

}  // namespace

int main(int argc, char **argv) try {
    indelible_database *opened;
    check(indelible_open(argc > 1 ? argv[1] : "orders.db", nullptr, &opened));
    Database database(opened);
    indelible_connection *connected;
    check(indelible_connect(database.get(), &connected));
    Connection connection(connected);

    check(indelible_exec(connected,
                         "CREATE TABLE IF NOT EXISTS orders"
                         " (id bigint PRIMARY KEY, amount numeric(12, 2) NOT NULL)",
                         nullptr, nullptr),
          connected);
    transaction(connected, [&] {
        auto insert = prepare(connected, "INSERT INTO orders VALUES (?, ?) ON CONFLICT DO NOTHING");
        for (int id = 1; id <= 10; id++) {
            check(indelible_bind_i64(insert.get(), 1, id), connected);
            check(indelible_bind_decimal_text(insert.get(), 2, "19.90"), connected);
            if (indelible_step(insert.get()) != INDELIBLE_DONE) throw Failed(connected);
        }
    });

    auto total = prepare(connected, "SELECT count(*), sum(amount) FROM orders");
    if (indelible_step(total.get()) != INDELIBLE_ROW) throw Failed(connected);
    int64_t count;
    const char *sum;
    check(indelible_column_i64(total.get(), 0, &count), connected);
    check(indelible_column_text(total.get(), 1, &sum, nullptr), connected);
    std::cout << count << " orders, " << sum << "\n";
    return count == 10 && std::string(sum) == "199.00" ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
