// Drizzle: tables with the types of its `pg-core`, values, relations, upserts, transactions,
// prepared statements, migrations.
const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { Pool } = require("pg");
const { drizzle } = require("drizzle-orm/node-postgres");
const { migrate } = require("drizzle-orm/node-postgres/migrator");
const { and, avg, count, desc, eq, gt, inArray, relations, sql } = require("drizzle-orm");
const pg = require("drizzle-orm/pg-core");

const mood = pg.pgEnum("mood", ["calm", "wild"]);
const owner = pg.pgTable("owner", {
  id: pg.serial("id").primaryKey(),
  name: pg.varchar("name", { length: 60 }).notNull().unique(),
  since: pg.timestamp("since", { withTimezone: true }).defaultNow().notNull(),
});
const pet = pg.pgTable("pet", {
  id: pg.integer("id").primaryKey().generatedAlwaysAsIdentity(),
  ownerId: pg.integer("owner_id").notNull().references(() => owner.id, { onDelete: "cascade" }),
  name: pg.text("name").notNull(),
  weight: pg.numeric("weight", { precision: 8, scale: 2 }),
  tags: pg.text("tags").array(),
  marks: pg.jsonb("marks"),
  born: pg.date("born"),
  chip: pg.uuid("chip").defaultRandom(),
  mood: mood("mood").default("calm"),
});
const ownerRelations = relations(owner, ({ many }) => ({ pets: many(pet) }));
const petRelations = relations(pet, ({ one }) => ({ owner: one(owner, { fields: [pet.ownerId], references: [owner.id] }) }));

// The statements as `drizzle-kit generate` writes them, with its journal.
function migrations() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "drizzle-"));
  const text = `CREATE TYPE "public"."mood" AS ENUM('calm', 'wild');--> statement-breakpoint
CREATE TABLE "owner" (
	"id" serial PRIMARY KEY NOT NULL,
	"name" varchar(60) NOT NULL,
	"since" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "owner_name_unique" UNIQUE("name")
);
--> statement-breakpoint
CREATE TABLE "pet" (
	"id" integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "pet_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1),
	"owner_id" integer NOT NULL,
	"name" text NOT NULL,
	"weight" numeric(8, 2),
	"tags" text[],
	"marks" jsonb,
	"born" date,
	"chip" uuid DEFAULT gen_random_uuid(),
	"mood" "mood" DEFAULT 'calm'
);
--> statement-breakpoint
ALTER TABLE "pet" ADD CONSTRAINT "pet_owner_id_owner_id_fk" FOREIGN KEY ("owner_id") REFERENCES "public"."owner"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "pet_name" ON "pet" USING btree ("name" DESC NULLS LAST);`;
  const entry = { idx: 0, version: "7", when: 1700000000000, tag: "0000_start", breakpoints: true };
  fs.mkdirSync(path.join(folder, "meta"));
  fs.writeFileSync(path.join(folder, "0000_start.sql"), text);
  fs.writeFileSync(path.join(folder, "meta/_journal.json"), JSON.stringify({ version: "7", dialect: "postgresql", entries: [entry] }));
  return folder;
}

async function main() {
  const pool = new Pool();
  const db = drizzle(pool, { schema: { owner, pet, ownerRelations, petRelations } });
  const folder = migrations();
  await migrate(db, { migrationsFolder: folder });
  await migrate(db, { migrationsFolder: folder });
  fs.rmSync(folder, { recursive: true });

  const owners = await db.insert(owner).values([{ name: "ada" }, { name: "bob" }]).returning();
  assert(owners[0].since instanceof Date);
  const rows = [];
  for (let i = 0; i < 100; i++) {
    rows.push({ ownerId: owners[i % 2].id, name: `p${i}`, weight: `${i}.25`, tags: [`t${i % 3}`, 'a "b", c'], marks: { i }, born: "2024-02-29" });
  }
  await db.insert(pet).values(rows);
  const [first] = await db.select().from(pet).where(eq(pet.name, "p1"));
  assert.deepStrictEqual([first.weight, first.tags, first.marks, first.born, first.mood], ["1.25", ["t1", 'a "b", c'], { i: 1 }, "2024-02-29", "calm"]);
  const joined = await db.select({ name: owner.name, n: count(), mean: avg(pet.weight) }).from(pet)
    .innerJoin(owner, eq(pet.ownerId, owner.id)).groupBy(owner.name).orderBy(desc(owner.name));
  assert.deepStrictEqual(joined.map((one) => [one.name, one.n, Number(one.mean)]), [["bob", 50, 50.25], ["ada", 50, 49.25]]);
  const nested = await db.query.owner.findMany({
    with: { pets: { where: gt(pet.weight, "95"), orderBy: pet.name, columns: { name: true, weight: true } } },
    orderBy: owner.name,
  });
  assert.deepStrictEqual(nested[0].pets, [{ name: "p96", weight: "96.25" }, { name: "p98", weight: "98.25" }]);
  const back = await db.query.pet.findFirst({ with: { owner: true }, where: eq(pet.name, "p1") });
  assert.strictEqual(back.owner.name, "bob");
  await db.insert(owner).values({ name: "ada" }).onConflictDoUpdate({ target: owner.name, set: { name: sql`excluded.name || '2'` } });
  await db.insert(owner).values({ name: "bob" }).onConflictDoNothing();
  assert.deepStrictEqual((await db.select({ name: owner.name }).from(owner).orderBy(owner.name)).map((one) => one.name), ["ada2", "bob"]);
  await assert.rejects(db.transaction(async (tx) => {
    await tx.delete(pet);
    await tx.transaction(async (inner) => inner.rollback()).catch(() => {});
    throw new Error("undo");
  }), /undo/);
  assert.strictEqual(await db.$count(pet), 100);
  await db.transaction(async (tx) => {
    await tx.select().from(pet).where(eq(pet.name, "p2")).for("update", { skipLocked: true });
    await tx.update(pet).set({ mood: "wild", weight: sql`${pet.weight} + 1` }).where(and(eq(pet.name, "p2"), inArray(pet.mood, ["calm"])));
  }, { isolationLevel: "repeatable read" });
  const named = db.select().from(pet).where(eq(pet.name, sql.placeholder("name"))).prepare("by_name");
  for (let i = 0; i < 3; i++) assert.strictEqual((await named.execute({ name: `p${i}` }))[0].name, `p${i}`);
  assert.strictEqual((await named.execute({ name: "p2" }))[0].mood, "wild");
  const error = await db.insert(owner).values({ name: "bob" }).catch((found) => found);
  assert.strictEqual((error.cause ?? error).code, "23505");
  const rest = db.$with("rest").as(db.select().from(pet).where(gt(pet.id, 90)));
  assert.strictEqual((await db.with(rest).select().from(rest)).length, 10);
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
