// pgx: prepared statements in its cache, binary values, batches, COPY, transactions, pools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(right bool, what ...any) {
	if !right {
		panic(fmt.Sprint(what...))
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := fmt.Sprintf("postgres://tester@127.0.0.1:%s/db?sslmode=disable", os.Getenv("PGPORT"))
	con, err := pgx.Connect(ctx, address)
	must(err)
	_, err = con.Exec(ctx, "CREATE TABLE v (id int PRIMARY KEY, t text, b bool, f float8, d timestamptz, by bytea)")
	must(err)
	when := time.Date(2024, 2, 29, 12, 30, 0, 0, time.UTC)
	_, err = con.Exec(ctx, "INSERT INTO v VALUES ($1, $2, $3, $4, $5, $6)", 1, "tëxt", true, 1.5, when, []byte{0, 255})
	must(err)
	var id int
	var t string
	var b bool
	var f float64
	var d time.Time
	var by []byte
	must(con.QueryRow(ctx, "SELECT * FROM v WHERE id = $1", 1).Scan(&id, &t, &b, &f, &d, &by))
	check(id == 1 && t == "tëxt" && b && f == 1.5 && d.Equal(when) && len(by) == 2, id, t, b, f, d, by)

	batch := &pgx.Batch{}
	for i := range 100 {
		batch.Queue("SELECT $1::int * 2", i)
	}
	results := con.SendBatch(ctx, batch)
	for i := range 100 {
		must(results.QueryRow().Scan(&id))
		check(id == 2*i, id, i)
	}
	must(results.Close())

	rows := make([][]any, 1000)
	for i := range rows {
		rows[i] = []any{i + 2, fmt.Sprint(i)}
	}
	_, copyError := con.CopyFrom(ctx, pgx.Identifier{"v"}, []string{"id", "t"}, pgx.CopyFromRows(rows))
	must(copyError)

	_, err = con.Exec(ctx, "INSERT INTO v (id) VALUES (1)")
	var failure *pgconn.PgError
	check(errors.As(err, &failure) && failure.Code == "23505" && failure.ConstraintName == "v_pkey", err)
	err = pgx.BeginFunc(ctx, con, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM v")
		must(err)
		return errors.New("undone")
	})
	check(err != nil && err.Error() == "undone", err)
	must(con.QueryRow(ctx, "SELECT count(*) FROM v").Scan(&id))
	check(id == 1001, id)

	pool, err := pgxpool.New(ctx, address)
	must(err)
	for i := range 20 {
		must(pool.QueryRow(ctx, "SELECT $1::int", i).Scan(&id))
		check(id == i, id)
	}
	pool.Close()
	must(con.Close(ctx))
}
