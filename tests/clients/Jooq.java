// jOOQ: definitions, queries of its language, upserts, batches, records, transactions, windows, and
// the metadata it reads.
import static org.jooq.impl.DSL.*;
import static org.jooq.impl.SQLDataType.*;

import java.math.BigDecimal;
import java.sql.DriverManager;
import java.util.List;
import org.jooq.SQLDialect;
import org.jooq.exception.DataAccessException;
import org.jooq.impl.DSL;

public class Jooq {
  static void equal(Object found, Object wanted) {
    if (!found.equals(wanted)) throw new AssertionError(found + " is not " + wanted);
  }

  public static void main(String[] arguments) throws Exception {
    System.setProperty("org.jooq.no-logo", "true");
    System.setProperty("org.jooq.no-tips", "true");
    var url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/db?sslmode=disable";
    try (var connection = DriverManager.getConnection(url, "tester", "")) {
      var db = DSL.using(connection, SQLDialect.POSTGRES);
      var owner = table(name("owner"));
      var pet = table(name("pet"));
      var id = field(name("owner", "id"), INTEGER);
      var title = field(name("owner", "name"), VARCHAR(40));
      var of = field(name("pet", "owner_id"), INTEGER);
      var weight = field(name("pet", "weight"), NUMERIC(8, 2));
      var tags = field(name("pet", "tags"), VARCHAR.array());
      db.createTable(owner).column("id", INTEGER.identity(true)).column("name", VARCHAR(40).nullable(false))
          .constraints(primaryKey("id"), unique("name")).execute();
      db.createTableIfNotExists(pet).column("id", BIGINT.identity(true)).column("owner_id", INTEGER).column("weight", NUMERIC(8, 2))
          .column("tags", VARCHAR.array()).column("at", TIMESTAMPWITHTIMEZONE.defaultValue(currentOffsetDateTime()))
          .constraints(primaryKey("id"), foreignKey("owner_id").references("owner", "id").onDeleteCascade(),
              check(field("weight").gt(inline(0)))).execute();
      db.createIndex("pet_owner").on(pet, of).execute();
      var ids = db.insertInto(owner, title).values("ada").values("bob").returningResult(id).fetch(id);
      equal(ids, List.of(1, 2));
      var batch = db.batch(db.insertInto(pet, of, weight, tags).values((Integer) null, null, null));
      for (int i = 0; i < 300; i++) batch.bind(1 + i % 2, new BigDecimal(i + 1), new String[] {"a", "t" + i % 3});
      equal(batch.execute().length, 300);
      var sums = db.select(title, count(), sum(weight)).from(pet).join(owner).on(of.eq(id)).groupBy(title)
          .having(count().gt(1)).orderBy(title.desc()).fetch();
      equal(sums.get(0).value3(), new BigDecimal("22650.00"));
      db.insertInto(owner, title).values("ada").onConflict(field("name")).doUpdate().set(field("name", VARCHAR), "ada2").execute();
      db.insertInto(owner, title).values("bob").onConflictDoNothing().execute();
      equal(db.select(title).from(owner).orderBy(title).fetch(title), List.of("ada2", "bob"));
      var ranked = db.select(weight, rowNumber().over(partitionBy(of).orderBy(weight.desc())).as("place")).from(pet).asTable("ranked");
      equal(db.select(ranked.field(0, BigDecimal.class)).from(ranked).where(field(name("place"), Integer.class).eq(1)).orderBy(1)
          .fetch(0, BigDecimal.class), List.of(new BigDecimal("299.00"), new BigDecimal("300.00")));
      equal(db.fetchCount(pet, arrayOverlap(tags, val(new String[] {"t1"}, VARCHAR.array()))), 100);
      var nested = db.select(title, multiset(select(weight).from(pet).where(of.eq(id)).orderBy(weight).limit(2))).from(owner).orderBy(id).fetch();
      equal(nested.get(1).value2().getValues(0).toString(), "[2.0, 4.0]");
      var v = field(name("n", "v"), INTEGER);
      var counted = db.withRecursive("n", "v").as(select(inline(1)).unionAll(select(v.plus(1)).from(name("n")).where(v.lt(10))));
      equal(counted.selectCount().from(name("n")).fetchOne(0, int.class), 10);
      try {
        db.transaction(outer -> {
          var inner = outer.dsl();
          inner.selectFrom(owner).where(id.eq(1)).forUpdate().skipLocked().fetch();
          inner.deleteFrom(pet).execute();
          throw new IllegalStateException("undo");
        });
      } catch (IllegalStateException expected) {
        equal(db.fetchCount(pet), 300);
      }
      try {
        db.insertInto(owner, title).values("bob").execute();
        throw new AssertionError("a name twice");
      } catch (DataAccessException error) {
        equal(error.sqlState(), "23505");
      }
      var meta = db.meta().filterSchemas(schema -> schema.getName().equals("public"));
      equal(meta.getTables("pet").get(0).fields().length, 5);
      equal(meta.getTables("pet").get(0).getReferences().size(), 1);
      equal(meta.getTables("owner").get(0).getUniqueKeys().size(), 1);
      db.alterTable(pet).addColumn("sold", BOOLEAN.nullable(false).defaultValue(false)).execute();
      db.alterTable(pet).renameColumn("sold").to("gone").execute();
      db.dropTable(pet).execute();
      db.dropTableIfExists(owner).cascade().execute();
    }
  }
}
