/* A list of tasks: the calls that most programs need.
 *     cc tasks.c $(pkg-config --cflags --libs indelible) && ./a.out /dev/shm/tasks
 */
#include <indelible.h>
#include <inttypes.h>
#include <stdio.h>

#define TRY(call)                                                          \
    do {                                                                   \
        if ((call) != INDELIBLE_OK) {                                      \
            fprintf(stderr, "%s: %s\n", #call, indelible_message(NULL));   \
            return 1;                                                      \
        }                                                                  \
    } while (0)

int main(int argc, char **argv) {
    indelible_database *database;
    indelible_connection *connection;
    indelible_statement *statement;
    int code;

    TRY(indelible_open(argc > 1 ? argv[1] : "tasks.db", NULL, &database));
    TRY(indelible_connect(database, &connection));
    TRY(indelible_exec(connection,
                       "CREATE TABLE IF NOT EXISTS task"
                       " (id bigint PRIMARY KEY, title text NOT NULL, done boolean NOT NULL)",
                       NULL, NULL));

    const char *titles[] = {"buy milk", "write docs", "sleep"};
    TRY(indelible_prepare(connection,
                          "INSERT INTO task VALUES (:id, :title, false)"
                          " ON CONFLICT (id) DO UPDATE SET title = excluded.title",
                          -1, &statement, NULL));
    TRY(indelible_exec(connection, "BEGIN", NULL, NULL));
    for (int i = 0; i < 3; i++) {
        TRY(indelible_bind_i64(statement, 1, i + 1));
        TRY(indelible_bind_text(statement, 2, titles[i], -1));
        if (indelible_step(statement) != INDELIBLE_DONE) {
            fprintf(stderr, "insert: %s\n", indelible_message(connection));
            return 1;
        }
    }
    TRY(indelible_exec(connection, "COMMIT", NULL, NULL)); /* durable when it returns */
    TRY(indelible_finalize(statement));

    TRY(indelible_prepare(connection, "SELECT id, title FROM task WHERE NOT done ORDER BY id", -1,
                          &statement, NULL));
    while ((code = indelible_step(statement)) == INDELIBLE_ROW) {
        int64_t id;
        const char *title;
        TRY(indelible_column_i64(statement, 0, &id));
        TRY(indelible_column_text(statement, 1, &title, NULL));
        printf("%" PRId64 " %s\n", id, title);
    }
    if (code != INDELIBLE_DONE) {
        fprintf(stderr, "select: %s\n", indelible_message(connection));
        return 1;
    }
    TRY(indelible_finalize(statement));
    TRY(indelible_disconnect(connection));
    TRY(indelible_close(database));
    return 0;
}
