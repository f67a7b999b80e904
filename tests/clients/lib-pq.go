// lib/pq over database/sql: prepared statements, values, COPY, transactions, errors, and a context
// that ends a statement.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lib/pq"
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
	db, err := sql.Open("postgres", fmt.Sprintf("postgres://tester@127.0.0.1:%s/db?sslmode=disable", os.Getenv("PGPORT")))
	must(err)
	_, err = db.Exec("CREATE TABLE v (id int PRIMARY KEY, t text, n numeric(8,2), d timestamp, a int[])")
	must(err)
	when := time.Date(2024, 2, 29, 12, 30, 0, 0, time.UTC)
	_, err = db.Exec("INSERT INTO v VALUES ($1, $2, $3, $4, $5)", 1, "tëxt", "12.50", when, pq.Array([]int64{1, 2}))
	must(err)
	var id int
	var t, n string
	var d time.Time
	var a []int64
	must(db.QueryRow("SELECT * FROM v WHERE id = $1", 1).Scan(&id, &t, &n, &d, pq.Array(&a)))
	check(id == 1 && t == "tëxt" && n == "12.50" && d.Equal(when) && len(a) == 2, id, t, n, d, a)

	tx, err := db.Begin()
	must(err)
	copy, err := tx.Prepare(pq.CopyIn("v", "id", "t"))
	must(err)
	for i := range 1000 {
		_, err = copy.Exec(i+2, fmt.Sprint("row\t", i))
		must(err)
	}
	_, err = copy.Exec()
	must(err)
	must(copy.Close())
	must(tx.Commit())
	must(db.QueryRow("SELECT count(*) FROM v").Scan(&id))
	check(id == 1001, id)

	_, err = db.Exec("INSERT INTO v (id) VALUES ($1)", 1)
	var failure *pq.Error
	check(errors.As(err, &failure) && failure.Code == "23505" && failure.Constraint == "v_pkey", err)
	tx, err = db.Begin()
	must(err)
	_, err = tx.Exec("DELETE FROM v")
	must(err)
	must(tx.Rollback())

	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = db.ExecContext(ctx, "SELECT pg_sleep(30)")
	check(err != nil && time.Since(start) < 10*time.Second, err)
	must(db.Ping())
	must(db.Close())
}
