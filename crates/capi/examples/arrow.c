/* Rows of a query as Arrow, without a copy for libraries that read its C stream interface.
 *     cc arrow.c $(pkg-config --cflags --libs indelible) && ./a.out /dev/shm/arrow
 *
 * Such a library has the three structures in a header of its own, and takes the stream as it is.
 * This program reads it by hand: the sum of a column, its texts, and an error of a later row.
 */
#include <errno.h>
#include <indelible.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

#define TRY(call)                                                        \
    do {                                                                 \
        if ((call) != 0) {                                               \
            fprintf(stderr, "%s: %s\n", #call, indelible_message(NULL)); \
            return 1;                                                    \
        }                                                                \
    } while (0)
#define EXPECT(condition)                                         \
    do {                                                          \
        if (!(condition)) {                                       \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            return 1;                                             \
        }                                                         \
    } while (0)

static int is_null(const struct ArrowArray *column, int64_t row) {
    const uint8_t *valid = column->buffers[0];
    return valid && !(valid[row / 8] >> (row % 8) & 1);
}

static int formats(indelible_connection *connection) {
    static const char *const wanted[] = {"l", "u", "d:10,2", "tsu:UTC", "b", "w:16", "z", "tdD"};
    indelible_statement *statement;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    TRY(indelible_prepare(connection,
                          "SELECT 1::bigint AS a, 'x'::text, 1::numeric(10, 2), now(), true,"
                          " gen_random_uuid(), '\\x00'::bytea, current_date",
                          -1, &statement, NULL));
    TRY(indelible_arrow_stream(statement, &stream));
    TRY(stream.get_schema(&stream, &schema));
    EXPECT(strcmp(schema.format, "+s") == 0 && schema.n_children == 8);
    EXPECT(strcmp(schema.children[0]->name, "a") == 0);
    for (int at = 0; at < 8; at++) EXPECT(strcmp(schema.children[at]->format, wanted[at]) == 0);
    /* A consumer may keep a part of what it got. */
    struct ArrowSchema kept = *schema.children[1];
    schema.children[1]->release = NULL;
    schema.release(&schema);
    EXPECT(schema.release == NULL && strcmp(kept.format, "u") == 0);
    kept.release(&kept);
    EXPECT(indelible_disconnect(connection) == INDELIBLE_BUSY);
    stream.release(&stream); /* without a look at its rows */
    EXPECT(stream.release == NULL);
    TRY(indelible_finalize(statement));
    return 0;
}

int main(int argc, char **argv) {
    indelible_database *database;
    indelible_connection *connection;
    indelible_statement *statement;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;

    TRY(indelible_open(argc > 1 ? argv[1] : "arrow.db", NULL, &database));
    TRY(indelible_connect(database, &connection));
    if (formats(connection) != 0) return 1;

    TRY(indelible_prepare(connection,
                          "SELECT g, CASE WHEN g % 3 > 0 THEN 'row ' || g END"
                          " FROM generate_series(1, $1::bigint) g",
                          -1, &statement, NULL));
    TRY(indelible_bind_i64(statement, 1, 200000));
    TRY(indelible_arrow_stream(statement, &stream));
    /* The statement is free again, and the rest of the rows is read into memory for it. */
    EXPECT(indelible_step(statement) == INDELIBLE_ROW);
    TRY(indelible_reset(statement));
    int64_t rows = 0, sum = 0, nulls = 0, bytes = 0;
    for (;;) {
        TRY(stream.get_next(&stream, &batch));
        if (!batch.release) break;
        const struct ArrowArray *numbers = batch.children[0], *texts = batch.children[1];
        const int64_t *values = numbers->buffers[1];
        const int32_t *ends = texts->buffers[1];
        EXPECT(numbers->null_count == 0 && numbers->length == batch.length);
        for (int64_t row = 0; row < batch.length; row++) {
            sum += values[row];
            nulls += is_null(texts, row);
        }
        rows += batch.length;
        bytes += ends[batch.length];
        batch.release(&batch);
    }
    printf("%" PRId64 " rows, sum %" PRId64 ", %" PRId64 " NULLs, %" PRId64 " bytes\n", rows, sum,
           nulls, bytes);
    EXPECT(rows == 200000 && sum == 20000100000 && nulls == 66666);
    stream.release(&stream);
    TRY(indelible_finalize(statement));

    /* Statements without rows make an empty stream, and errors of later rows end one. */
    TRY(indelible_prepare(connection, "CREATE TABLE IF NOT EXISTS t (a bigint)", -1, &statement,
                          NULL));
    TRY(indelible_arrow_stream(statement, &stream));
    TRY(stream.get_next(&stream, &batch));
    EXPECT(batch.release == NULL);
    stream.release(&stream);
    TRY(indelible_finalize(statement));
    TRY(indelible_prepare(connection, "SELECT 1 / (150000 - g) FROM generate_series(1, 200000) g",
                          -1, &statement, NULL));
    TRY(indelible_arrow_stream(statement, &stream));
    int code;
    while ((code = stream.get_next(&stream, &batch)) == 0 && batch.release) batch.release(&batch);
    EXPECT(code == EIO && strncmp(stream.get_last_error(&stream), "22012: ", 7) == 0);
    stream.release(&stream);
    EXPECT(indelible_arrow_stream(statement, NULL) == INDELIBLE_MISUSE);
    TRY(indelible_finalize(statement));

    TRY(indelible_disconnect(connection));
    TRY(indelible_close(database));
    return 0;
}
