/* Indelible for C. Version 1 of the interface. Made from crates/capi/src; docs/c.md is the manual.
 *
 * Handles. A database is opened once in a process, has any number of connections, and a connection
 * any number of statements. A handle is a number, never an address: one that was closed, or that
 * never was one, is answered with INDELIBLE_MISUSE.
 *
 * Threads. A handle may move between threads, but one thread at a time may use a connection with
 * its statements: a second one is answered with INDELIBLE_MISUSE. indelible_interrupt is the only
 * call that any thread may make at any time. Different connections do not disturb each other.
 *
 * Fork. Handles do not work in a child process: calls are answered with INDELIBLE_MISUSE, and
 * change nothing. The child opens the database for itself when the parent has closed it.
 *
 * Errors. Every call that can fail returns a code. indelible_error tells more. No call aborts the
 * program, throws, or unwinds; callbacks must not throw or longjmp either.
 *
 * Memory. Texts and bytes that a call returns belong to the library and are valid as the call says.
 * What is bound to a parameter is copied.
 */

#ifndef INDELIBLE_H
#define INDELIBLE_H

#include <stddef.h>
#include <stdint.h>
typedef struct indelible_database indelible_database;
typedef struct indelible_connection indelible_connection;
typedef struct indelible_statement indelible_statement;

/* Of Arrow's C stream interface, for indelible_arrow_stream. A program that calls it has the
 * structure from a header of an Arrow library, or from the interface's page. */
struct ArrowArrayStream;

/*
 The call did what it should.
 */
#define INDELIBLE_OK 0

/*
 The call failed; indelible_error says why.
 */
#define INDELIBLE_ERROR 1

/*
 Run the transaction again: another one came first, or it was part of a deadlock. Of a call that
 closes a handle: others have to be closed before.
 */
#define INDELIBLE_BUSY 5

/*
 The statement was interrupted.
 */
#define INDELIBLE_INTERRUPT 9

/*
 A text or bytes that are longer than INDELIBLE_VALUE_BYTES_MAX.
 */
#define INDELIBLE_TOOBIG 18

/*
 The value has another type than the call returns.
 */
#define INDELIBLE_MISMATCH 20

/*
 A handle that is closed, NULL, in use by another thread or from before a fork; a NULL pointer.
 */
#define INDELIBLE_MISUSE 21

/*
 There is no parameter or column of that number.
 */
#define INDELIBLE_RANGE 25

/*
 indelible_step has a row.
 */
#define INDELIBLE_ROW 100

/*
 indelible_step has no more rows: the statement is done.
 */
#define INDELIBLE_DONE 101

/*
 The most bytes of a value that can be bound: 1 GiB.
 */
#define INDELIBLE_VALUE_BYTES_MAX (1 << 30)

/*
 No value.
 */
#define INDELIBLE_NULL 0

/*
 indelible_column_i64: smallint, integer, bigint, numbers of the catalogue.
 */
#define INDELIBLE_INTEGER 1

/*
 indelible_column_f64: real, double precision.
 */
#define INDELIBLE_FLOAT 2

/*
 indelible_column_text: all texts, and types without one of their own.
 */
#define INDELIBLE_TEXT 3

/*
 indelible_column_bytes: bytea.
 */
#define INDELIBLE_BYTES 4

/*
 indelible_column_i64 returns 0 or 1.
 */
#define INDELIBLE_BOOLEAN 5

/*
 indelible_column_text: numeric.
 */
#define INDELIBLE_DECIMAL 6

/*
 indelible_column_timestamp: both timestamps.
 */
#define INDELIBLE_TIMESTAMP 7

/*
 indelible_column_uuid: uuid.
 */
#define INDELIBLE_UUID 8

/*
 The version of the interface, as in the name of the shared library.
 */
#define INDELIBLE_ABI_VERSION 1

/*
 Flag of indelible_options: nothing is changed, and many processes may open the database so.
 */
#define INDELIBLE_READ_ONLY 1

/*
 Flag of indelible_options: it is an error if the database does not exist.
 */
#define INDELIBLE_EXISTING 2

/*
 An error. Set size to sizeof(indelible_error_info) before the call, so that later versions can
 add fields.
 */
typedef struct {
    /*
     Bytes of the structure.
     */
    size_t size;
    /*
     The code that the call returned.
     */
    int code;
    /*
     Whether the same transaction may succeed when it is run again.
     */
    int is_retryable;
    /*
     SQLSTATE: five characters.
     */
    const char *state;
    /*
     A sentence.
     */
    const char *message;
    /*
     More about the circumstances, or NULL.
     */
    const char *detail;
    /*
     A remedy, or NULL.
     */
    const char *hint;
    /*
     The place in the text of the statement, in characters from 1, or 0.
     */
    size_t position;
} indelible_error_info;

/*
 Options of a database. Set size to sizeof(indelible_options) and all else to 0 first.
 */
typedef struct {
    /*
     Bytes of the structure.
     */
    size_t size;
    /*
     INDELIBLE_READ_ONLY, INDELIBLE_EXISTING, or both.
     */
    uint32_t flags;
    /*
     The storage method of a new database by name, or NULL for the best one of the medium.
     */
    const char *method;
    /*
     A directory for the log of a new database, or NULL.
     */
    const char *log_directory;
} indelible_options;

/*
 Called by indelible_exec for each row, with texts that are valid during the call; NULL is NULL.
 A result that is not 0 ends the statement with INDELIBLE_INTERRUPT.
 */
typedef int (*indelible_callback)(void *argument,
                                  int columns,
                                  const char *const *values,
                                  const char *const *names);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Tells about the last call that failed: of the connection and its statements, or, if connection
 is NULL or closed, of this thread. The texts are valid until this thread calls indelible_error
 or indelible_message again. Without a failed call the state is 00000.
 */
int indelible_error(indelible_connection *connection, indelible_error_info *info);

/*
 The message of the same error, never NULL; valid as the texts of indelible_error.
 */
const char *indelible_message(indelible_connection *connection);

/*
 The version of the interface: INDELIBLE_ABI_VERSION of the header that the library was built
 with.
 */
uint32_t indelible_abi_version(void);

/*
 The version of the library, such as "0.1.0".
 */
const char *indelible_version(void);

/*
 Opens the database in the directory path, or creates it there. options may be NULL. A process
 opens a database once, and connects to it as often as it likes. On an error *database is NULL.
 */
int indelible_open(const char *path,
                   const indelible_options *options,
                   indelible_database **database);

/*
 Closes a database, all of whose connections have to be closed. NULL is allowed.
 */
int indelible_close(indelible_database *database);

/*
 Opens a connection to a database. On an error *connection is NULL.
 */
int indelible_connect(indelible_database *database, indelible_connection **connection);

/*
 Closes a connection, all of whose statements have to be finalized. An open transaction is rolled
 back. NULL is allowed.
 */
int indelible_disconnect(indelible_connection *connection);

/*
 Runs all statements of a text. Together they are one transaction, unless one of them begins or
 ends one. callback may be NULL; otherwise it is called with argument for each row.
 */
int indelible_exec(indelible_connection *connection,
                   const char *sql,
                   indelible_callback callback,
                   void *argument);

/*
 Runs one COPY ... FROM STDIN with its data, as they would come in a file.
 */
int indelible_copy_in(indelible_connection *connection,
                      const char *sql,
                      const char *data,
                      int64_t data_bytes);

/*
 Rows that the last statement of the connection inserted, updated, deleted or copied.
 */
int indelible_changes(indelible_connection *connection, uint64_t *rows);

/*
 Whether a transaction block is open: 'I' none, 'T' open, 'E' open and failed, so that only its
 end is possible.
 */
int indelible_status(indelible_connection *connection, int *status);

/*
 Ends the statement that the connection runs with INDELIBLE_INTERRUPT. Any thread may call it at
 any time. A commit is not interrupted.
 */
int indelible_interrupt(indelible_connection *connection);

/*
 Checks all of a database: its pages, rows, indexes and catalogue. INDELIBLE_ERROR names the
 first damage.
 */
int indelible_verify(indelible_database *database);

/*
 Writes a backup of a database to a new file while it is in use.
 */
int indelible_backup(indelible_database *database, const char *file);

/*
 Prepares the first statement of a text of sql_bytes bytes, or up to its zero byte if sql_bytes
 is negative. Parameters are written $1, ? or :name. *tail, if tail is not NULL, is the rest of
 the text. *statement is NULL if there is no statement but blanks and comments, and on an error.
 */
int indelible_prepare(indelible_connection *connection,
                      const char *sql,
                      int64_t sql_bytes,
                      indelible_statement **statement,
                      const char **tail);

/*
 Runs a statement to its next row: INDELIBLE_ROW, INDELIBLE_DONE, or an error. A statement that
 is done, or has failed, begins anew with the next step. Outside of a transaction block a
 statement is committed when it is done.
 */
int indelible_step(indelible_statement *statement);

/*
 Ends a statement before its last row, so that it can be bound and stepped again. Bound values
 stay.
 */
int indelible_reset(indelible_statement *statement);

/*
 Closes a statement. NULL is allowed.
 */
int indelible_finalize(indelible_statement *statement);

/*
 The number of parameters of a statement.
 */
int indelible_parameter_count(indelible_statement *statement, int *count);

/*
 The number of a parameter :name, from 1.
 */
int indelible_parameter_index(indelible_statement *statement, const char *name, int *index);

/*
 Makes all parameters NULL.
 */
int indelible_clear_bindings(indelible_statement *statement);

/*
 Binds NULL. Parameters count from 1, in all calls that bind.
 */
int indelible_bind_null(indelible_statement *statement, int parameter);

/*
 Binds a boolean: 0 is false, all else true.
 */
int indelible_bind_bool(indelible_statement *statement, int parameter, int value);

/*
 Binds an integer.
 */
int indelible_bind_i64(indelible_statement *statement, int parameter, int64_t value);

/*
 Binds a floating point number.
 */
int indelible_bind_f64(indelible_statement *statement, int parameter, double value);

/*
 Binds a text in UTF-8 of value_bytes bytes, or up to its zero byte if value_bytes is negative. A
 parameter of another type reads it as a literal: '2024-02-29', '{1,2}'.
 */
int indelible_bind_text(indelible_statement *statement,
                        int parameter,
                        const char *value,
                        int64_t value_bytes);

/*
 Binds bytes.
 */
int indelible_bind_bytes(indelible_statement *statement,
                         int parameter,
                         const char *value,
                         int64_t value_bytes);

/*
 Binds an exact decimal number, written as a text: "12.50".
 */
int indelible_bind_decimal_text(indelible_statement *statement, int parameter, const char *value);

/*
 Binds a moment: microseconds since 1970-01-01 UTC. INT64_MIN and INT64_MAX are the infinities.
 */
int indelible_bind_timestamp(indelible_statement *statement, int parameter, int64_t micros);

/*
 Binds a UUID of 16 bytes.
 */
int indelible_bind_uuid(indelible_statement *statement, int parameter, const uint8_t *value);

/*
 The number of columns of the result; 0 if there is none, or if only a step tells (SHOW, FETCH).
 */
int indelible_column_count(indelible_statement *statement, int *count);

/*
 The name of a column; valid until the statement is stepped or finalized.
 */
int indelible_column_name(indelible_statement *statement, int column, const char **name);

/*
 The number that PostgreSQL gives the type of a column: 20 is bigint, 25 is text.
 */
int indelible_column_oid(indelible_statement *statement, int column, uint32_t *oid);

/*
 The type of the value of a column in this row: INDELIBLE_NULL, INDELIBLE_INTEGER and so on.
 */
int indelible_column_type(indelible_statement *statement, int column, int *value_type);

/*
 An integer or a boolean.
 */
int indelible_column_i64(indelible_statement *statement, int column, int64_t *value);

/*
 A floating point number. Integers and decimal numbers are converted to the nearest one.
 */
int indelible_column_f64(indelible_statement *statement, int column, double *value);

/*
 A value of any type as a text in UTF-8 with a zero byte, and its bytes without it; NULL is NULL.
 value_bytes may be NULL, but not for a text that has a zero byte in it, which tables of the Rust
 API may have. The text is valid until the statement is stepped, reset or finalized.
 */
int indelible_column_text(indelible_statement *statement,
                          int column,
                          const char **value,
                          size_t *value_bytes);

/*
 Bytes of a bytea, or those of a text; NULL is NULL. They are valid until the statement is
 stepped, reset or finalized.
 */
int indelible_column_bytes(indelible_statement *statement,
                           int column,
                           const uint8_t **value,
                           size_t *value_bytes);

/*
 A moment in microseconds since 1970-01-01: UTC, or the clock of a timestamp without a zone. The
 infinities are INT64_MIN and INT64_MAX.
 */
int indelible_column_timestamp(indelible_statement *statement, int column, int64_t *micros);

/*
 A UUID, as 16 bytes that are written to value. NULL is 16 zeros.
 */
int indelible_column_uuid(indelible_statement *statement, int column, uint8_t *value);

/*
 Runs a statement, which must not be running, with its bound values, and makes its rows a stream
 of Arrow's C stream interface in *stream, which is not released before. Its columns have the
 formats that docs/c.md lists. The program releases the stream, and until then the connection
 cannot be closed. The statement is free again at once.

 The functions of the stream are for one thread at a time, as the connection is. They return 0,
 or EIO with a text that begins with the SQLSTATE.
 */
int indelible_arrow_stream(indelible_statement *statement, struct ArrowArrayStream *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* INDELIBLE_H */
