// node `pg`: simple and extended queries, prepared statements, values, errors, pools, notices.
const assert = require("node:assert");
const { Client, Pool } = require("pg");

async function main() {
  const client = new Client();
  const notices = [];
  client.on("notice", (notice) => notices.push(notice.message));
  await client.connect();
  await client.query("CREATE TABLE v (id int PRIMARY KEY, t text, n numeric, b bool, d timestamptz, by bytea, j jsonb)");
  const when = new Date("2024-02-29T12:30:00Z");
  const row = [1, "tëxt", "12.50", true, when, Buffer.from([0, 255]), { a: [1, null] }];
  await client.query("INSERT INTO v VALUES ($1,$2,$3,$4,$5,$6,$7)", row);
  const found = (await client.query("SELECT * FROM v WHERE id = $1", [1])).rows[0];
  assert.deepStrictEqual(Object.values(found), row);
  for (let i = 0; i < 3; i++) {
    const query = { name: "by-id", text: "SELECT t FROM v WHERE id = $1", values: [i] };
    assert.strictEqual((await client.query(query)).rowCount, i === 1 ? 1 : 0);
  }
  const both = await client.query("SELECT 1 AS one; SELECT 2 AS two");
  assert.deepStrictEqual(both.map((result) => result.rows[0]), [{ one: 1 }, { two: 2 }]);
  await assert.rejects(client.query("INSERT INTO v (id) VALUES (1)"), (error) => error.code === "23505" && error.constraint === "v_pkey");
  await assert.rejects(client.query("SELECT $1::int", ["x"]), (error) => error.code === "22P02");
  await client.query("BEGIN");
  await assert.rejects(client.query("SELECT 1/0"), (error) => error.code === "22012");
  await assert.rejects(client.query("SELECT 1"), (error) => error.code === "25P02");
  await client.query("ROLLBACK");
  await client.query("DROP TABLE IF EXISTS missing");
  assert.deepStrictEqual(notices, ['table "missing" does not exist, skipping']);
  const array = (await client.query("SELECT ARRAY[1, 2]::int[] AS a, NULL AS n")).rows[0];
  assert.deepStrictEqual(array, { a: [1, 2], n: null });
  const come = new Promise((resolve) => client.once("notification", resolve));
  await client.query("LISTEN news");
  const sender = new Client();
  await sender.connect();
  await sender.query("NOTIFY news, 'now'");
  const { channel, payload } = await come;
  assert.deepStrictEqual([channel, payload], ["news", "now"]);
  await sender.end();
  await client.end();

  const pool = new Pool({ max: 4 });
  const values = await Promise.all(Array.from({ length: 50 }, (_, i) => pool.query("SELECT $1::int AS v", [i])));
  assert.deepStrictEqual(values.map((result) => result.rows[0].v), Array.from({ length: 50 }, (_, i) => i));
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
