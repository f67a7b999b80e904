// Knex: migrations with alterations, values, joins, upserts, nested transactions, row locks,
// streams, columns of a table.
const assert = require("node:assert");
const knex = require("knex");

const migrations = [
  {
    name: "1_create",
    up: async (db) => {
      await db.schema.createTable("owner", (table) => {
        table.increments("id");
        table.string("name", 60).notNullable().unique();
        table.enu("kind", ["person", "shelter"]).defaultTo("person");
        table.timestamps(true, true);
      });
      await db.schema.createTable("pet", (table) => {
        table.bigIncrements("id");
        table.integer("owner_id").notNullable().references("id").inTable("owner").onDelete("CASCADE").index();
        table.text("name");
        table.decimal("weight", 8, 2).checkPositive();
        table.jsonb("marks").defaultTo("{}");
        table.uuid("chip");
        table.specificType("tags", "text[]");
        table.index(["name", "weight"], "pet_name_weight");
      });
    },
    down: (db) => db.schema.dropTable("pet").dropTable("owner"),
  },
  {
    name: "2_alter",
    up: (db) =>
      db.schema.alterTable("pet", (table) => {
        table.boolean("sold").notNullable().defaultTo(false);
        table.string("name", 100).notNullable().defaultTo("").alter();
        table.renameColumn("chip", "chip_id");
        table.unique(["owner_id", "name"]);
        table.comment("animals");
      }),
    down: (db) =>
      db.schema.alterTable("pet", (table) => {
        table.dropUnique(["owner_id", "name"]);
        table.renameColumn("chip_id", "chip");
        table.dropColumn("sold");
        table.setNullable("name");
      }),
  },
];

async function main() {
  const db = knex({ client: "pg", connection: {}, pool: { min: 0, max: 4 } });
  const migrationSource = {
    getMigrations: async () => migrations,
    getMigrationName: (one) => one.name,
    getMigration: async (one) => one,
  };
  await db.migrate.latest({ migrationSource });
  await db.migrate.rollback({ migrationSource });
  await db.migrate.latest({ migrationSource });
  assert.deepStrictEqual((await db.migrate.list({ migrationSource }))[1], []);
  assert(await db.schema.hasTable("pet"));
  assert(await db.schema.hasColumn("pet", "chip_id"));
  const columns = await db("pet").columnInfo();
  assert.strictEqual(columns.name.maxLength, 100);
  assert.strictEqual(columns.sold.type, "boolean");

  const owners = await db("owner").insert([{ name: "ada" }, { name: "bob" }], ["id", "name"]);
  assert.deepStrictEqual(owners.map((one) => one.name), ["ada", "bob"]);
  const pets = [];
  for (let i = 0; i < 500; i++) {
    pets.push({ owner_id: owners[i % 2].id, name: `p${i}`, weight: i + 0.5, marks: { i }, tags: ["a", `t${i % 3}`] });
  }
  await db.batchInsert("pet", pets, 100);
  const found = await db("pet").join("owner", "owner.id", "pet.owner_id").where("owner.name", "ada").whereIn("pet.name", ["p2", "p3"])
    .select("pet.*", "owner.name as owner");
  assert.deepStrictEqual([found[0].weight, found[0].marks, found[0].tags, found[0].owner], ["2.50", { i: 2 }, ["a", "t2"], "ada"]);
  const sums = await db("pet").groupBy("owner_id").having(db.raw("count(*) > ?", [1])).orderBy("owner_id").count("* as n").sum("weight as w");
  assert.deepStrictEqual(sums, [{ n: "250", w: "62375.00" }, { n: "250", w: "62625.00" }]);
  await db("owner").insert({ name: "ada", kind: "shelter" }).onConflict("name").merge(["kind"]);
  await db("owner").insert({ name: "ada" }).onConflict("name").ignore();
  assert.strictEqual((await db("owner").where({ name: "ada" }).first()).kind, "shelter");
  assert.strictEqual((await db("pet").whereJsonSupersetOf("marks", { i: 7 }).select("name"))[0].name, "p7");
  assert.strictEqual((await db("pet").whereRaw("tags @> ?", [["t1"]]).count())[0].count, "167");
  await assert.rejects(db("owner").insert({ name: "bob" }), { code: "23505", constraint: "owner_name_unique" });
  await assert.rejects(db("pet").insert({ owner_id: 99, name: "x" }), { code: "23503" });
  await assert.rejects(db("owner").insert({ name: "c", kind: "robot" }), { code: "23514" });

  await db.transaction(async (outer) => {
    await outer("pet").where("name", "p0").forUpdate().skipLocked().first();
    await outer("pet").where("name", "p0").update({ weight: outer.raw("weight + ?", [1]) });
    await assert.rejects(outer.transaction(async (inner) => {
      await inner("pet").del();
      throw new Error("undo");
    }), /undo/);
  });
  assert.strictEqual((await db("pet").where("name", "p0").first()).weight, "1.50");
  const recent = await db.with("big", (part) => part.from("pet").where("weight", ">", 400)).from("big").count();
  assert.strictEqual(recent[0].count, "100");
  const ranked = await db("pet").select("name").rowNumber("place", (part) => part.partitionBy("owner_id").orderBy("weight", "desc"))
    .orderBy([{ column: "place" }, { column: "name" }]).limit(2);
  assert.deepStrictEqual(ranked.map((one) => one.name), ["p498", "p499"]);
  assert.strictEqual(await db("pet").where("owner_id", owners[1].id).del(), 250);
  await db("owner").truncate().catch((error) => assert.strictEqual(error.code, "0A000"));
  await db.raw("TRUNCATE owner RESTART IDENTITY CASCADE");
  await db.migrate.rollback({ migrationSource }, true);
  assert(!(await db.schema.hasTable("pet")));
  await db.destroy();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
