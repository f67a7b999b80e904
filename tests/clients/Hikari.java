// HikariCP: a pool with its checks of connections, isolation, read-only ones, a leak of none, and
// threads that share it.
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;

public class Hikari {
  static void check(boolean is, String what) {
    if (!is) throw new AssertionError(what);
  }

  public static void main(String[] arguments) throws Exception {
    var config = new HikariConfig();
    config.setJdbcUrl("jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/db?sslmode=disable");
    config.setUsername("tester");
    config.setMaximumPoolSize(4);
    config.setMinimumIdle(1);
    config.setConnectionInitSql("SET application_name = 'pooled'");
    config.setTransactionIsolation("TRANSACTION_REPEATABLE_READ");
    config.setAutoCommit(false);
    config.setKeepaliveTime(30_000);
    try (var pool = new HikariDataSource(config)) {
      try (var one = pool.getConnection(); var made = one.createStatement()) {
        made.execute("CREATE TABLE counted (id int PRIMARY KEY, n int NOT NULL)");
        made.execute("INSERT INTO counted SELECT g, 0 FROM generate_series(1, 8) g");
        var level = made.executeQuery("SHOW transaction_isolation");
        check(level.next() && level.getString(1).equals("repeatable read"), "isolation");
        var name = made.executeQuery("SHOW application_name");
        check(name.next() && name.getString(1).equals("pooled"), "the first statement");
        one.commit();
      }
      var threads = Executors.newFixedThreadPool(8);
      var tasks = new ArrayList<Callable<Integer>>();
      for (int i = 0; i < 8; i++) {
        int id = i + 1;
        tasks.add(() -> {
          for (int round = 0; round < 50; round++) {
            try (var one = pool.getConnection(); var change = one.prepareStatement("UPDATE counted SET n = n + 1 WHERE id = ?")) {
              change.setInt(1, id);
              check(change.executeUpdate() == 1, "one row");
              if (round % 5 == 4) one.rollback();
              else one.commit();
            }
          }
          return id;
        });
      }
      for (var done : threads.invokeAll(tasks)) done.get();
      threads.shutdown();
      try (var one = pool.getConnection(); var read = one.createStatement()) {
        var sum = read.executeQuery("SELECT sum(n), min(n) FROM counted");
        check(sum.next() && sum.getInt(1) == 320 && sum.getInt(2) == 40, "all that was committed");
        one.commit();
        one.setReadOnly(true);
        try {
          read.executeUpdate("DELETE FROM counted");
          throw new AssertionError("a change of a reader");
        } catch (SQLException error) {
          check(error.getSQLState().equals("25006"), error.getSQLState());
        }
        one.rollback();
      }
      // A connection that is given back is as new.
      try (Connection one = pool.getConnection()) {
        check(!one.isReadOnly() && one.isValid(1), "a connection as new");
        one.createStatement().execute("SELECT pg_terminate_backend(pg_backend_pid())");
      } catch (SQLException error) {
        check(error.getSQLState().startsWith("57") || error.getSQLState().startsWith("08"), error.getSQLState());
      }
      try (var one = pool.getConnection(); var read = one.createStatement()) {
        check(read.executeQuery("SELECT 1").next(), "another connection");
      }
    }
  }
}
