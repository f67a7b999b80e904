// TypeORM: entities synchronized twice, migrations, relations, query builder, upserts,
// transactions, row locks, trees of JSON.
const assert = require("node:assert");
require("reflect-metadata");
const { DataSource, EntitySchema, In } = require("typeorm");

const Owner = new EntitySchema({
  name: "Owner",
  columns: {
    id: { type: "int", primary: true, generated: "increment" },
    name: { type: "varchar", length: 60, unique: true },
    kind: { type: "enum", enum: ["person", "shelter"], default: "person" },
    createdAt: { type: "timestamptz", createDate: true },
    version: { type: "int", version: true },
  },
  relations: { pets: { type: "one-to-many", target: "Pet", inverseSide: "owner", cascade: true } },
});
const Pet = new EntitySchema({
  name: "Pet",
  columns: {
    id: { type: "uuid", primary: true, generated: "uuid" },
    name: { type: "text", comment: "as it is called" },
    weight: { type: "numeric", precision: 8, scale: 2, nullable: true },
    tags: { type: "text", array: true, default: [] },
    marks: { type: "jsonb", nullable: true },
    born: { type: "date", nullable: true },
    sold: { type: "boolean", default: false },
  },
  indices: [{ name: "pet_name", columns: ["name", "weight"] }],
  checks: [{ name: "pet_weight", expression: '"weight" > 0' }],
  relations: {
    owner: { type: "many-to-one", target: "Owner", inverseSide: "pets", onDelete: "CASCADE", nullable: false },
    toys: { type: "many-to-many", target: "Toy", joinTable: true, cascade: true },
  },
});
const Toy = new EntitySchema({ name: "Toy", columns: { code: { type: "char", length: 4, primary: true } } });

class Later1700000000000 {
  async up(runner) {
    const { Table, TableColumn, TableForeignKey } = require("typeorm");
    await runner.createTable(new Table({
      name: "shop",
      columns: [
        { name: "id", type: "bigint", isPrimary: true, isGenerated: true, generationStrategy: "increment" },
        { name: "owner", type: "int" },
        { name: "city", type: "varchar", length: "30", isUnique: true },
      ],
    }), true);
    await runner.addColumn("shop", new TableColumn({ name: "open", type: "boolean", default: true }));
    await runner.changeColumn("shop", "city", new TableColumn({ name: "town", type: "varchar", length: "30", isUnique: true }));
    await runner.createForeignKey("shop", new TableForeignKey({
      columnNames: ["owner"], referencedTableName: "owner", referencedColumnNames: ["id"], onDelete: "CASCADE",
    }));
  }
  async down(runner) {
    await runner.dropTable("shop");
  }
}

async function main() {
  const settings = {
    type: "postgres", host: process.env.PGHOST, port: Number(process.env.PGPORT ?? 5432), username: process.env.PGUSER,
    database: process.env.PGDATABASE, entities: [Owner, Pet, Toy], migrations: [Later1700000000000], installExtensions: false, uuidExtension: "pgcrypto",
  };
  const db = await new DataSource(settings).initialize();
  await db.synchronize();
  const log = await db.driver.createSchemaBuilder().log();
  assert.deepStrictEqual(log.upQueries.map((one) => one.query), []);
  await db.runMigrations();
  assert.strictEqual(await db.showMigrations(), false);
  const runner = db.createQueryRunner();
  const shop = await runner.getTable("shop");
  assert.deepStrictEqual(shop.columns.map((one) => one.name).sort(), ["id", "open", "owner", "town"]);
  assert.strictEqual(shop.foreignKeys.length, 1);
  await db.undoLastMigration();
  await runner.release();

  const owners = db.getRepository("Owner");
  const pets = db.getRepository("Pet");
  const make = (name, i) => ({ name: `${name}${i}`, weight: i + 0.5, tags: ["a", `t${i % 3}`], marks: { i }, born: "2024-02-29", toys: [{ code: `c${i}` }] });
  await owners.save([
    { name: "ada", pets: [0, 1, 2].map((i) => make("a", i)) },
    { name: "bob", pets: [3, 4].map((i) => make("b", i)) },
  ]);
  const ada = await owners.findOne({ where: { name: "ada" }, relations: { pets: { toys: true } }, order: { pets: { name: "DESC" } } });
  assert.deepStrictEqual(ada.pets.map((one) => [one.name, one.weight, one.tags[1], one.marks.i, one.born, one.toys[0].code]), [
    ["a2", "2.50", "t2", 2, "2024-02-29", "c2  "], ["a1", "1.50", "t1", 1, "2024-02-29", "c1  "], ["a0", "0.50", "t0", 0, "2024-02-29", "c0  "],
  ]);
  ada.kind = "shelter";
  await owners.save(ada);
  assert.strictEqual((await owners.findOneBy({ name: "ada" })).version, 2);
  const [page, total] = await pets.findAndCount({ where: { owner: { name: In(["ada", "bob"]) } }, order: { weight: "DESC" }, take: 2, skip: 1, relations: { owner: true } });
  assert.deepStrictEqual([total, page.map((one) => one.name)], [5, ["b3", "a2"]]);
  const sums = await pets.createQueryBuilder("pet").innerJoin("pet.owner", "owner").select("owner.name", "name").addSelect("SUM(pet.weight)", "w")
    .groupBy("owner.name").having("COUNT(*) > :n", { n: 1 }).orderBy("owner.name").getRawMany();
  assert.deepStrictEqual(sums, [{ name: "ada", w: "4.50" }, { name: "bob", w: "8.00" }]);
  await owners.upsert([{ name: "bob", kind: "shelter" }, { name: "eve" }], ["name"]);
  assert.strictEqual(await owners.countBy({ kind: "shelter" }), 2);
  await assert.rejects(owners.insert({ name: "eve" }), (error) => error.driverError.code === "23505");
  await assert.rejects(pets.update({ name: "a0" }, { weight: -1 }), (error) => error.driverError.code === "23514");
  await assert.rejects(db.transaction("SERIALIZABLE", async (manager) => {
    await manager.delete("Owner", { name: "ada" });
    assert.strictEqual(await manager.count("Pet"), 2);
    throw new Error("undo");
  }), /undo/);
  await db.transaction(async (manager) => {
    const one = await manager.findOne("Pet", { where: { name: "a1" }, lock: { mode: "pessimistic_write", onLocked: "skip_locked" } });
    await manager.increment("Pet", { id: one.id }, "weight", 2);
  });
  assert.strictEqual((await pets.findOneBy({ name: "a1" })).weight, "3.50");
  const streamed = await pets.createQueryBuilder("pet").where("pet.tags @> :tags", { tags: ["a"] }).getMany();
  assert.strictEqual(streamed.length, 5);
  await db.dropDatabase();
  await db.destroy();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
