// node `postgres`: pipelined prepared statements, its look at array types, transactions, cursors.
const assert = require("node:assert");
const postgres = require("postgres");

async function main() {
  const sql = postgres({ host: "127.0.0.1", port: Number(process.env.PGPORT), user: "tester", database: "db", max: 4, onnotice: () => {} });
  await sql`CREATE TABLE v (id int PRIMARY KEY, t text, b bool)`;
  const rows = Array.from({ length: 100 }, (_, id) => ({ id, t: `row ${id}`, b: id % 2 === 0 }));
  await sql`INSERT INTO v ${sql(rows)}`;
  assert.deepStrictEqual((await sql`SELECT * FROM v WHERE id = ${7}`)[0], rows[7]);
  const many = await Promise.all(rows.map((row) => sql`SELECT t FROM v WHERE id = ${row.id}`));
  assert.deepStrictEqual(many.map((result) => result[0].t), rows.map((row) => row.t));
  await assert.rejects(sql`INSERT INTO v (id) VALUES (1)`, (error) => error.code === "23505");
  await assert.rejects(
    sql.begin(async (tx) => {
      await tx`DELETE FROM v`;
      throw new Error("undone");
    }),
    /undone/,
  );
  let seen = 0;
  await sql`SELECT id FROM v ORDER BY id`.cursor(10, (part) => {
    seen += part.length;
  });
  assert.strictEqual(seen, 100);
  await sql.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
