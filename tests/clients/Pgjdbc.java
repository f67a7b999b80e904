// pgjdbc: server-prepared statements, batches, fetch size, generated keys, COPY, metadata, cancel.

import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.*;
import org.postgresql.PGConnection;

public class Pgjdbc {
    static void check(boolean right, Object what) {
        if (!right) throw new AssertionError(what);
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/db?user=tester&sslmode=disable";
        try (Connection con = DriverManager.getConnection(url)) {
            try (Statement statement = con.createStatement()) {
                statement.execute("CREATE TABLE v (id serial PRIMARY KEY, t text, n numeric(8,2), d timestamp)");
            }
            Timestamp when = Timestamp.valueOf("2024-02-29 12:30:15.123456");
            String insert = "INSERT INTO v (t, n, d) VALUES (?, ?, ?)";
            try (PreparedStatement statement = con.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
                statement.setString(1, "tëxt");
                statement.setBigDecimal(2, new BigDecimal("12.50"));
                statement.setTimestamp(3, when);
                check(statement.executeUpdate() == 1, "rows");
                ResultSet keys = statement.getGeneratedKeys();
                check(keys.next() && keys.getInt(1) == 1, "key");
                for (int i = 0; i < 500; i++) {
                    statement.setString(1, "row " + i);
                    statement.addBatch();
                }
                check(statement.executeBatch().length == 500, "batch");
            }
            // After five uses the driver names the statement and reads binary values.
            try (PreparedStatement statement = con.prepareStatement("SELECT t, n, d FROM v WHERE id = ?")) {
                for (int i = 0; i < 10; i++) {
                    statement.setInt(1, 1);
                    ResultSet row = statement.executeQuery();
                    check(row.next() && row.getString(1).equals("tëxt"), "text");
                    check(row.getBigDecimal(2).equals(new BigDecimal("12.50")) && row.getTimestamp(3).equals(when), "values");
                }
            }
            con.setAutoCommit(false);
            try (Statement statement = con.createStatement()) {
                statement.setFetchSize(64);
                ResultSet rows = statement.executeQuery("SELECT id FROM v ORDER BY id");
                int count = 0;
                while (rows.next()) check(rows.getInt(1) == ++count, count);
                check(count == 501, count);
                Savepoint savepoint = con.setSavepoint();
                try {
                    statement.execute("INSERT INTO v (id) VALUES (1)");
                    throw new AssertionError("a key twice");
                } catch (SQLException error) {
                    check(error.getSQLState().equals("23505"), error);
                    con.rollback(savepoint);
                }
                statement.execute("DELETE FROM v WHERE id > 100");
            }
            con.rollback();
            con.setAutoCommit(true);
            long copied = con.unwrap(PGConnection.class).getCopyAPI()
                .copyIn("COPY v (id, t) FROM STDIN", new StringReader("1001\tone\n1002\t\\N\n"));
            check(copied == 2, copied);
            DatabaseMetaData metadata = con.getMetaData();
            ResultSet tables = metadata.getTables(null, "public", "%", new String[] {"TABLE"});
            check(tables.next() && tables.getString("TABLE_NAME").equals("v"), "tables");
            ResultSet columns = metadata.getColumns(null, "public", "v", "%");
            int count = 0;
            while (columns.next()) count++;
            check(count == 4, count);
            ResultSet keys = metadata.getPrimaryKeys(null, "public", "v");
            check(keys.next() && keys.getString("COLUMN_NAME").equals("id"), "primary key");
            try (Statement statement = con.createStatement()) {
                statement.setQueryTimeout(1);
                statement.execute("SELECT pg_sleep(30)");
                throw new AssertionError("not cancelled");
            } catch (SQLException error) {
                check(error.getSQLState().equals("57014"), error);
            }
        }
    }
}
