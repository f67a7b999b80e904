/* Wrong use of every kind gets a code and a message, and nothing is lost by it. */
#define _DEFAULT_SOURCE
#include <indelible.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

static int failures;

static void expect(const char *what, int code, int wanted, const char *message) {
    const char *found = indelible_message(NULL);
    if (code != wanted || (message && !strstr(found, message))) {
        printf("%s: code %d, wanted %d; message: %s\n", what, code, wanted, found);
        failures++;
    }
}

static void *interrupts(void *connection) {
    usleep(200 * 1000);
    expect("interrupt", indelible_interrupt(connection), INDELIBLE_OK, NULL);
    return NULL;
}

static void *steps(void *statement) {
    int code = indelible_step(statement);
    return code == INDELIBLE_INTERRUPT ? NULL : statement;
}

static int ends(void *rows, int columns, const char *const *values, const char *const *names) {
    if (columns != 1 || strcmp(names[0], "g") != 0 || !values[0]) return 1;
    return ++*(int *)rows == 3;
}

static void handles(const char *path) {
    indelible_database *database, *second;
    indelible_connection *connection;
    indelible_statement *statement;
    indelible_options options = {0};

    expect("NULL out", indelible_open(path, NULL, NULL), INDELIBLE_MISUSE, "`database` is NULL");
    expect("NULL path", indelible_open(NULL, NULL, &database), INDELIBLE_MISUSE, "`path` is NULL");
    expect("size", indelible_open(path, &options, &database), INDELIBLE_MISUSE, "`size`");
    options.size = sizeof options;
    options.flags = 64;
    expect("flags", indelible_open(path, &options, &database), INDELIBLE_MISUSE, "`flags`");
    options.flags = INDELIBLE_EXISTING;
    expect("missing", indelible_open(path, &options, &database), INDELIBLE_ERROR, "no database");
    options.flags = 0;
    options.method = "nonsense";
    expect("method", indelible_open(path, &options, &database), INDELIBLE_ERROR, "nonsense");

    expect("open", indelible_open(path, NULL, &database), INDELIBLE_OK, NULL);
    expect("second", indelible_open(path, NULL, &second), INDELIBLE_ERROR, NULL);
    expect("connect", indelible_connect(database, &connection), INDELIBLE_OK, NULL);
    expect("wrong kind", indelible_close((indelible_database *)connection), INDELIBLE_MISUSE,
           "of another kind");
    expect("early close", indelible_close(database), INDELIBLE_BUSY, "1 open connections");
    indelible_error_info info = {.size = sizeof info};
    expect("early info", indelible_error(NULL, &info), INDELIBLE_OK, NULL);
    if (strcmp(info.state, "55006") != 0 || info.is_retryable) failures++;
    expect("prepare", indelible_prepare(connection, "SELECT 1", -1, &statement, NULL), INDELIBLE_OK,
           NULL);
    expect("early disconnect", indelible_disconnect(connection), INDELIBLE_BUSY, "1 open statements");
    expect("finalize", indelible_finalize(statement), INDELIBLE_OK, NULL);
    expect("closed", indelible_step(statement), INDELIBLE_MISUSE, "it was closed");
    expect("closed twice", indelible_finalize(statement), INDELIBLE_MISUSE, "it was closed");
    expect("garbage", indelible_step((indelible_statement *)(size_t)0x4141414141414141),
           INDELIBLE_MISUSE, NULL);
    expect("NULL handle", indelible_step(NULL), INDELIBLE_MISUSE, "is NULL");
    expect("disconnect", indelible_disconnect(connection), INDELIBLE_OK, NULL);
    expect("close", indelible_close(database), INDELIBLE_OK, NULL);
    expect("close NULL", indelible_close(NULL), INDELIBLE_OK, NULL);
}

static void values(indelible_connection *connection) {
    indelible_statement *statement;
    const char *tail, *text;
    int64_t number;
    double real;
    size_t bytes;
    int count;

    expect("syntax", indelible_prepare(connection, "SELEC 1", -1, &statement, NULL), INDELIBLE_ERROR,
           "syntax error");
    expect("encoding", indelible_prepare(connection, "SELECT '\xff'", -1, &statement, NULL),
           INDELIBLE_ERROR, "not UTF-8");
    expect("tail", indelible_prepare(connection, "SELECT ?; SELECT 2", -1, &statement, &tail),
           INDELIBLE_OK, NULL);
    if (strcmp(tail, " SELECT 2") != 0) failures++;
    expect("parameter 0", indelible_bind_i64(statement, 0, 1), INDELIBLE_RANGE, "from 1");
    expect("parameter 2", indelible_bind_i64(statement, 2, 1), INDELIBLE_RANGE, "has 1");
    expect("2 GB", indelible_bind_text(statement, 1, "x", (int64_t)1 << 31), INDELIBLE_TOOBIG,
           "2147483648 bytes");
    expect("NULL text", indelible_bind_text(statement, 1, NULL, -1), INDELIBLE_MISUSE, "is NULL");
    expect("no row", indelible_column_i64(statement, 0, &number), INDELIBLE_MISUSE, "has no row");
    expect("bind", indelible_bind_text(statement, 1, "five", -1), INDELIBLE_OK, NULL);
    expect("step", indelible_step(statement), INDELIBLE_ROW, NULL);
    expect("running", indelible_bind_i64(statement, 1, 1), INDELIBLE_MISUSE, "reset it");
    expect("column", indelible_column_i64(statement, 1, &number), INDELIBLE_RANGE, "no column 1");
    expect("type", indelible_column_i64(statement, 0, &number), INDELIBLE_MISMATCH, "type text");
    expect("number", indelible_column_f64(statement, 0, &real), INDELIBLE_MISMATCH, "type text");
    expect("text", indelible_column_text(statement, 0, &text, &bytes), INDELIBLE_OK, NULL);
    if (bytes != 4 || strcmp(text, "five") != 0) failures++;
    expect("reset", indelible_reset(statement), INDELIBLE_OK, NULL);
    expect("count", indelible_parameter_count(statement, &count), INDELIBLE_OK, NULL);
    if (count != 1) failures++;
    expect("finalize", indelible_finalize(statement), INDELIBLE_OK, NULL);
    expect("empty", indelible_prepare(connection, "  ", -1, &statement, NULL), INDELIBLE_OK, NULL);
    if (statement) failures++;
    expect("comments", indelible_prepare(connection, "-- none\n /* ; */", -1, &statement, NULL),
           INDELIBLE_OK, NULL);
    if (statement) failures++;
    expect("dollar", indelible_prepare(connection, "SELECT a$1 FROM (SELECT 5 AS a$1) t", -1,
                                       &statement, NULL),
           INDELIBLE_OK, NULL);
    expect("dollar", indelible_step(statement), INDELIBLE_ROW, NULL);
    expect("finalize", indelible_finalize(statement), INDELIBLE_OK, NULL);

    int rows = 0;
    expect("callback",
           indelible_exec(connection, "SELECT g FROM generate_series(1, 9) g", ends, &rows),
           INDELIBLE_INTERRUPT, "callback");
    if (rows != 3) failures++;
    indelible_error_info info = {0};
    expect("info size", indelible_error(connection, &info), INDELIBLE_MISUSE, "`size`");
    info.size = sizeof info;
    expect("info", indelible_error(connection, &info), INDELIBLE_OK, NULL);
    if (strcmp(info.state, "57014") != 0 || info.is_retryable) failures++;
    expect("copy", indelible_copy_in(connection, "COPY t FROM STDIN", "1\n2\n", -1), INDELIBLE_OK,
           NULL);
    uint64_t changed;
    expect("changes", indelible_changes(connection, &changed), INDELIBLE_OK, NULL);
    if (changed != 2) failures++;
    expect("reads", indelible_exec(connection,
                                   "BEGIN; DECLARE c CURSOR FOR TABLE t; FETCH 1 FROM c; MOVE c; COMMIT;"
                                   "COPY (SELECT g FROM generate_series(1, 5) g) TO STDOUT",
                                   NULL, NULL),
           INDELIBLE_OK, NULL);
    expect("changes", indelible_changes(connection, &changed), INDELIBLE_OK, NULL);
    if (changed != 2) failures++;
    expect("no copy", indelible_copy_in(connection, "SELECT 1", "1\n", -1), INDELIBLE_ERROR, "COPY");
}

/* Moments at the ends of both ranges: SQL's is the smaller one, but for the infinities. */
static void moments(indelible_connection *connection) {
    const int64_t ends[] = {INT64_MIN, INT64_MAX, 0, 253402300800000000};
    indelible_statement *statement;
    int64_t back;
    expect("prepare", indelible_prepare(connection, "SELECT ?::timestamptz", -1, &statement, NULL),
           INDELIBLE_OK, NULL);
    for (size_t at = 0; at < sizeof ends / sizeof *ends; at++) {
        expect("moment", indelible_bind_timestamp(statement, 1, ends[at]), INDELIBLE_OK, NULL);
        expect("moment", indelible_step(statement), INDELIBLE_ROW, NULL);
        expect("moment", indelible_column_timestamp(statement, 0, &back), INDELIBLE_OK, NULL);
        if (back != ends[at]) failures++;
        expect("reset", indelible_reset(statement), INDELIBLE_OK, NULL);
    }
    expect("early", indelible_bind_timestamp(statement, 1, INT64_MIN + 1), INDELIBLE_ERROR,
           "out of range");
    expect("early", indelible_bind_timestamp(statement, 1, INT64_MIN / 4), INDELIBLE_ERROR,
           "out of range");
    expect("finalize", indelible_finalize(statement), INDELIBLE_OK, NULL);
}

/* An interrupt between two batches, and statements that SQL has forgotten. */
static void between(indelible_connection *connection) {
    const char *many = "SELECT g FROM generate_series(1, 100000) g";
    indelible_statement *statement;
    int code;
    expect("prepare", indelible_prepare(connection, many, -1, &statement, NULL), INDELIBLE_OK, NULL);
    expect("step", indelible_step(statement), INDELIBLE_ROW, NULL);
    expect("interrupt", indelible_interrupt(connection), INDELIBLE_OK, NULL);
    while ((code = indelible_step(statement)) == INDELIBLE_ROW) continue;
    expect("interrupted", code, INDELIBLE_INTERRUPT, NULL);
    expect("deallocate", indelible_exec(connection, "DEALLOCATE ALL", NULL, NULL), INDELIBLE_OK, NULL);
    expect("again", indelible_step(statement), INDELIBLE_ROW, NULL);
    expect("finalize", indelible_finalize(statement), INDELIBLE_OK, NULL);
}

/* Texts of a batch of Arrow, and what its types cannot hold. */
static void streams(indelible_connection *connection) {
    const char *texts =
        "SELECT repeat('x', 8 << 20), ARRAY[repeat('y', 8 << 20)] FROM generate_series(1, 20)";
    indelible_statement *statement;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    int batches = 0;
    int64_t rows = 0;
    expect("prepare", indelible_prepare(connection, texts, -1, &statement, NULL), INDELIBLE_OK, NULL);
    expect("stream", indelible_arrow_stream(statement, &stream), INDELIBLE_OK, NULL);
    while (stream.get_next(&stream, &batch) == 0 && batch.release) {
        batches++;
        rows += batch.length;
        batch.release(&batch);
    }
    stream.release(&stream);
    if (batches != 2 || rows != 20) {
        printf("%d batches with %d rows\n", batches, (int)rows);
        failures++;
    }
    expect("finalize", indelible_finalize(statement), INDELIBLE_OK, NULL);
    expect("prepare", indelible_prepare(connection, "SELECT interval '3000000 hours'", -1, &statement,
                                        NULL),
           INDELIBLE_OK, NULL);
    expect("stream", indelible_arrow_stream(statement, &stream), INDELIBLE_OK, NULL);
    if (stream.get_next(&stream, &batch) == 0 ||
        !strstr(stream.get_last_error(&stream), "22008")) failures++;
    stream.release(&stream);
    expect("finalize", indelible_finalize(statement), INDELIBLE_OK, NULL);
}

static void threads(indelible_connection *connection) {
    const char *slow = "SELECT count(*) FROM generate_series(1, 100000000) a";
    indelible_statement *statement;
    pthread_t stepping, interrupting;
    void *result;
    expect("slow", indelible_prepare(connection, slow, -1, &statement, NULL), INDELIBLE_OK, NULL);
    pthread_create(&stepping, NULL, steps, statement);
    usleep(100 * 1000);
    expect("other thread", indelible_exec(connection, "SELECT 1", NULL, NULL), INDELIBLE_MISUSE,
           "another thread");
    expect("other thread", indelible_step(statement), INDELIBLE_MISUSE, "another thread");
    pthread_create(&interrupting, NULL, interrupts, connection);
    pthread_join(stepping, &result);
    pthread_join(interrupting, NULL);
    if (result) {
        printf("the statement was not interrupted\n");
        failures++;
    }
    expect("finalize", indelible_finalize(statement), INDELIBLE_OK, NULL);
}

static void forks(indelible_database *database, indelible_connection *connection) {
    pid_t child = fork();
    if (child == 0) {
        indelible_connection *other;
        failures = 0;
        expect("fork", indelible_exec(connection, "SELECT 1", NULL, NULL), INDELIBLE_MISUSE, "forked");
        expect("fork", indelible_connect(database, &other), INDELIBLE_MISUSE, "forked");
        expect("fork", indelible_disconnect(connection), INDELIBLE_MISUSE, "forked");
        fflush(stdout);
        _exit(failures != 0);
    }
    int status;
    waitpid(child, &status, 0);
    failures += status != 0;
    expect("parent", indelible_exec(connection, "INSERT INTO t VALUES (3)", NULL, NULL), INDELIBLE_OK,
           NULL);
}

int main(int argc, char **argv) {
    indelible_database *database;
    indelible_connection *connection;
    const char *path = argc > 1 ? argv[1] : "misuse.db";

    if (indelible_abi_version() != INDELIBLE_ABI_VERSION) return 1;
    handles(path);
    expect("open", indelible_open(path, NULL, &database), INDELIBLE_OK, NULL);
    expect("connect", indelible_connect(database, &connection), INDELIBLE_OK, NULL);
    expect("table", indelible_exec(connection, "CREATE TABLE t (a integer)", NULL, NULL), INDELIBLE_OK,
           NULL);
    values(connection);
    moments(connection);
    between(connection);
    streams(connection);
    threads(connection);
    forks(database, connection);
    expect("verify", indelible_verify(database), INDELIBLE_OK, NULL);
    expect("disconnect", indelible_disconnect(connection), INDELIBLE_OK, NULL);
    expect("close", indelible_close(database), INDELIBLE_OK, NULL);
    return failures != 0;
}
