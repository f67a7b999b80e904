// Grafana 6.1.6, of the line under the Apache License: its own migrations, twice; the second run
// finds nothing to do.
package main

import (
	"fmt"
	"os"

	"github.com/go-xorm/xorm"
	"github.com/grafana/grafana/pkg/services/sqlstore/migrations"
	"github.com/grafana/grafana/pkg/services/sqlstore/migrator"
	_ "github.com/lib/pq"
)

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func main() {
	address := fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable",
		os.Getenv("PGSOCKET"), os.Getenv("PGPORT"), os.Getenv("PGUSER"), os.Getenv("PGDATABASE"))
	engine, err := xorm.NewEngine("postgres", address)
	check(err)
	for run := 1; run <= 2; run++ {
		all := migrator.NewMigrator(engine)
		migrations.AddMigrations(all)
		check(all.Start())
		fmt.Println("migrations:", all.MigrationsCount(), "run", run)
	}
}
