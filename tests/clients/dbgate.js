// DbGate by its plugin for PostgreSQL: each part that it reads of a database and of the server is a
// line.
global.DBGATE_PACKAGES = { 'dbgate-tools': require('dbgate-tools') };
const plugin = require('dbgate-plugin-postgres');
const driver = plugin.drivers.find((one) => one.engine === 'postgres@dbgate-plugin-postgres');

// Its log is JSON on the same stream: errors in it are those of its statements.
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (text, ...rest) => {
  const entry = /^\{/.test(text) ? JSON.parse(text) : null;
  if (!entry) return write(text, ...rest);
  return entry.errorMessage ? write(`error: ${entry.errorMessage}\n`, ...rest) : true;
};

// Numbers of objects, sizes, hashes of definitions and times differ from server to server.
const own = /^(objectId|contentHash|analysedStats|postgresTableId|postgresColumnId|sizeBytes|sizeOnDisk|oid|pid|triggerId)$/;

function print(path, value) {
  if (Array.isArray(value)) {
    value.forEach((one, at) => print(`${path}.${(one && (one.pureName || one.constraintName || one.columnName || one.name || one.schemaName)) || at}`, one));
  } else if (value && typeof value === 'object' && !(value instanceof Date)) {
    Object.keys(value).filter((key) => !own.test(key)).sort().forEach((key) => print(`${path}.${key}`, value[key]));
  } else if (value !== undefined && value !== null) {
    console.log(`${path} = ${String(value).replace(/\s+/g, ' ')}`);
  }
}

async function main() {
  plugin.initialize?.({ platformInfo: {}, authProxy: null });
  const handle = await driver.connect({
    server: process.env.PGSOCKET,
    port: process.env.PGPORT,
    user: process.env.PGUSER,
    database: process.env.PGDATABASE,
    conid: 'checked',
  });
  const version = await driver.getVersion(handle);
  print('structure', await driver.analyseFull(handle, version));
  const parts = ['listSchemas', 'listProcesses', 'listVariables', 'serverSummary'];
  for (const part of parts) {
    try {
      const found = await driver[part](handle);
      if (part === 'listSchemas') print(part, found);
      else console.log(`${part} answers`);
    } catch (error) {
      console.log(`${part}: ${error.message}`);
    }
  }
  await driver.close(handle);
}

main().catch((error) => {
  console.log(`failed: ${error.message}`);
  process.exit(1);
});
