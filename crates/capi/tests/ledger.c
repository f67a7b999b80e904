/* Writes numbers, each in a transaction of its own, and prints each one when it is durable; or
 * checks that all numbers up to the last one that was printed are there, each once.
 *     ledger write DIRECTORY
 *     ledger check DIRECTORY LAST
 */
#include <indelible.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static indelible_connection *connection;

static void check(int code, int wanted) {
    if (code != wanted) {
        printf("code %d: %s\n", code, indelible_message(connection));
        exit(1);
    }
}

static int64_t number(const char *sql) {
    indelible_statement *statement;
    int64_t value;
    check(indelible_prepare(connection, sql, -1, &statement, NULL), INDELIBLE_OK);
    check(indelible_step(statement), INDELIBLE_ROW);
    check(indelible_column_i64(statement, 0, &value), INDELIBLE_OK);
    check(indelible_finalize(statement), INDELIBLE_OK);
    return value;
}

int main(int argc, char **argv) {
    indelible_database *database;
    indelible_statement *insert;

    if (argc < 3) return 2;
    check(indelible_open(argv[2], NULL, &database), INDELIBLE_OK);
    check(indelible_connect(database, &connection), INDELIBLE_OK);
    check(indelible_exec(connection, "CREATE TABLE IF NOT EXISTS ledger (n bigint PRIMARY KEY)", NULL,
                         NULL),
          INDELIBLE_OK);
    int64_t last = number("SELECT coalesce(max(n), 0) FROM ledger");
    if (strcmp(argv[1], "check") == 0) {
        int64_t acknowledged = argc > 3 ? atoll(argv[3]) : 0;
        int64_t count = number("SELECT count(*) FROM ledger");
        check(indelible_verify(database), INDELIBLE_OK);
        printf("%" PRId64 " rows to %" PRId64 ", acknowledged %" PRId64 "\n", count, last,
               acknowledged);
        return count == last && last >= acknowledged ? 0 : 1;
    }
    check(indelible_prepare(connection, "INSERT INTO ledger VALUES ($1)", -1, &insert, NULL),
          INDELIBLE_OK);
    for (;;) {
        check(indelible_bind_i64(insert, 1, ++last), INDELIBLE_OK);
        check(indelible_step(insert), INDELIBLE_DONE);
        printf("%" PRId64 "\n", last);
        fflush(stdout);
    }
}
