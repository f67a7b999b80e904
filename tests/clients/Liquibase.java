// Liquibase: a change log applied twice, its lock, tags, a rollback, and the snapshot it takes of a
// database.
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.DriverManager;
import liquibase.Contexts;
import liquibase.Scope;
import liquibase.command.CommandScope;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.DirectoryResourceAccessor;
import liquibase.snapshot.SnapshotControl;
import liquibase.snapshot.SnapshotGeneratorFactory;
import liquibase.structure.core.ForeignKey;
import liquibase.structure.core.Index;
import liquibase.structure.core.Table;
import liquibase.ui.LoggerUIService;

public class Liquibase {
  static void equal(Object found, Object wanted) {
    if (!found.equals(wanted)) throw new AssertionError(found + " is not " + wanted);
  }

  static final String LOG = """
      --liquibase formatted sql
      --changeset one:1
      CREATE TABLE owner (id int PRIMARY KEY, name varchar(40) NOT NULL CONSTRAINT owner_name UNIQUE);
      --rollback DROP TABLE owner;
      """;
  static final String MORE = """
      <databaseChangeLog xmlns="http://www.liquibase.org/xml/ns/dbchangelog" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
        xsi:schemaLocation="http://www.liquibase.org/xml/ns/dbchangelog http://www.liquibase.org/xml/ns/dbchangelog/dbchangelog-latest.xsd">
        <include file="one.sql"/>
        <changeSet id="tag" author="two"><tagDatabase tag="first"/></changeSet>
        <changeSet id="2" author="two">
          <preConditions><not><tableExists tableName="pet"/></not></preConditions>
          <createTable tableName="pet" remarks="animals">
            <column name="id" type="bigint" autoIncrement="true"><constraints primaryKey="true"/></column>
            <column name="owner_id" type="int"><constraints nullable="false" foreignKeyName="pet_owner" references="owner(id)"/></column>
            <column name="weight" type="decimal(8,2)" defaultValueNumeric="1.5"/>
            <column name="at" type="timestamp with time zone" defaultValueComputed="now()"/>
          </createTable>
          <createIndex tableName="pet" indexName="pet_weight"><column name="weight"/><column name="id"/></createIndex>
          <addColumn tableName="pet"><column name="sold" type="boolean" defaultValueBoolean="false"/></addColumn>
          <renameColumn tableName="pet" oldColumnName="sold" newColumnName="gone"/>
          <addUniqueConstraint tableName="pet" columnNames="owner_id, weight" constraintName="pet_once"/>
          <insert tableName="owner"><column name="id" valueNumeric="1"/><column name="name" value="ada"/></insert>
          <rollback><dropTable tableName="pet"/><delete tableName="owner"/></rollback>
        </changeSet>
      </databaseChangeLog>
      """;

  public static void main(String[] arguments) throws Exception {
    Path folder = Files.createTempDirectory("liquibase");
    Files.writeString(folder.resolve("one.sql"), LOG);
    Files.writeString(folder.resolve("all.xml"), MORE);
    var url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/db?sslmode=disable";
    Scope.child(Scope.Attr.ui.name(), new LoggerUIService(), () -> {
      try (var connection = DriverManager.getConnection(url, "tester", "")) {
        var database = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(connection));
        equal(database.getShortName(), "postgresql");
        var all = new liquibase.Liquibase("all.xml", new DirectoryResourceAccessor(folder), database);
        for (int round = 0; round < 2; round++) {
          all.update(new Contexts());
          all.validate();
          equal(all.listUnrunChangeSets(new Contexts(), null).size(), 0);
          var found = SnapshotGeneratorFactory.getInstance().createSnapshot(database.getDefaultSchema(), database, new SnapshotControl(database));
          var pet = found.get(Table.class).stream().filter(one -> one.getName().equals("pet")).findFirst().get();
          equal(pet.getColumns().size(), 5);
          equal(pet.getRemarks(), "animals");
          equal(pet.getUniqueConstraints().size(), 1);
          equal(found.get(ForeignKey.class).size(), 1);
          equal(found.get(Index.class).stream().anyMatch(one -> one.getName().equals("pet_weight")), true);
          all.rollback("first", new Contexts());
          equal(all.listUnrunChangeSets(new Contexts(), null).size(), 2);
        }
        all.dropAll();
        equal(all.listUnrunChangeSets(new Contexts(), null).size(), 3);
      }
    });
  }
}
