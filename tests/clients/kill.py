"""A ledger at the clients: nothing acknowledged is lost, nothing is there by half, however often the server is killed.

Four clients move amounts between accounts, each transfer with an entry that has the client's next number; one client
loads batches of rows by COPY. The server gets SIGKILL at a random moment. After its next start every transfer and batch
that was acknowledged is there; of those under way at the kill each is there as a whole or not at all.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import psycopg

CLIENTS = 4
ACCOUNTS = 50
BATCH_ROWS = 200


class Server:
    def __init__(self, program, directory):
        command = [program, "serve", directory, "--trust", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.port = None
        for line in self.process.stderr:
            if line.startswith("ready on "):
                self.port = int(line.split()[2].rsplit(":", 1)[1])
                break
        if self.port is None:
            sys.exit("the server did not start")
        # It must not wait for a reader of what else it says.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def connect(self):
        return psycopg.connect(host="127.0.0.1", port=self.port, user="tester", sslmode="disable", autocommit=True)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Ledger:
    """Numbers up to `acknowledged` are there; `begun` may be there."""

    def __init__(self):
        self.acknowledged = 0
        self.begun = 0


def transfer(con, client, number, chance):
    one, other = chance.sample(range(ACCOUNTS), 2)
    amount = chance.randint(1, 100)
    with con.transaction():
        # In one order, so that transfers wait for each other and never in a cycle.
        for account, change in sorted([(one, -amount), (other, amount)]):
            con.execute("UPDATE account SET balance = balance + %s WHERE id = %s", (change, account))
        con.execute("INSERT INTO entry VALUES (%s, %s, %s, %s, %s)", (client, number, one, other, amount))


def load(con, client, number, chance):
    with con.cursor().copy("COPY loaded FROM STDIN") as copy:
        for item in range(BATCH_ROWS):
            copy.write_row((number, item, "x" * chance.randint(0, 100)))


def work(server, client, ledger, seed):
    chance = random.Random(seed)
    action = load if client == CLIENTS else transfer
    try:
        with server.connect() as con:
            while True:
                ledger.begun = ledger.acknowledged + 1
                action(con, client, ledger.begun, chance)
                ledger.acknowledged = ledger.begun
    except psycopg.OperationalError:
        pass


def check(con, ledgers):
    one = lambda text: con.execute(text).fetchone()
    assert one("SELECT sum(balance), count(*) FROM account") == (0, ACCOUNTS), "a transfer is there by half"
    wrong = con.execute(
        "SELECT id FROM account WHERE balance <> coalesce((SELECT sum(amount) FROM entry WHERE target = id), 0)"
        " - coalesce((SELECT sum(amount) FROM entry WHERE source = id), 0)"
    ).fetchall()
    assert not wrong, f"accounts {wrong} do not agree with the entries"
    done = {}
    for client, count, highest in con.execute("SELECT client, count(*), max(number) FROM entry GROUP BY client"):
        assert count == highest, f"client {client}: an entry in the middle is missing"
        done[client] = highest
    batches = con.execute("SELECT batch, count(*) FROM loaded GROUP BY batch").fetchall()
    assert all(count == BATCH_ROWS for _, count in batches), f"a batch is there by half: {batches}"
    done[CLIENTS] = max((batch for batch, _ in batches), default=0)
    assert done[CLIENTS] == len(batches), "a batch in the middle is missing"
    for client, ledger in enumerate(ledgers):
        found = done.get(client, 0)
        assert ledger.acknowledged <= found <= ledger.begun, (
            f"client {client}: {ledger.acknowledged} acknowledged, {ledger.begun} begun, {found} there"
        )
        ledger.acknowledged = found


def main():
    program, method, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
    chance = random.Random(seed)
    root = tempfile.mkdtemp(prefix="indelible-kill-", dir="/dev/shm")
    directory = f"{root}/db"
    waits = []
    try:
        subprocess.run([program, "create", directory, "--method", method], check=True, stdout=subprocess.DEVNULL)
        server = Server(program, directory)
        with server.connect() as con:
            con.execute("CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)")
            con.execute("INSERT INTO account SELECT i, 0 FROM generate_series(0, %s) AS i", (ACCOUNTS - 1,))
            con.execute(
                "CREATE TABLE entry (client int, number int, source int, target int, amount int,"
                " PRIMARY KEY (client, number))"
            )
            con.execute("CREATE TABLE loaded (batch int, item int, filler text, PRIMARY KEY (batch, item))")
        ledgers = [Ledger() for _ in range(CLIENTS + 1)]
        for number in range(rounds):
            workers = [
                threading.Thread(target=work, args=(server, client, ledger, chance.random()))
                for client, ledger in enumerate(ledgers)
            ]
            for worker in workers:
                worker.start()
            time.sleep(chance.uniform(0.01, 0.5))
            server.kill()
            for worker in workers:
                worker.join()
            start = time.monotonic()
            server = Server(program, directory)
            with server.connect() as con:
                con.execute("SELECT 1")
                waits.append(time.monotonic() - start)
                try:
                    check(con, ledgers)
                except AssertionError as error:
                    sys.exit(f"{method}, round {number + 1}, SEED={seed}: {error}; the database is in {directory}")
        server.process.send_signal(signal.SIGTERM)
        if server.process.wait() != 0:
            sys.exit(f"{method}: the server did not end")
        subprocess.run([program, "verify", directory], check=True, stdout=subprocess.DEVNULL)
        transfers = sum(ledger.acknowledged for ledger in ledgers[:CLIENTS])
        if rounds > 1 and (transfers == 0 or ledgers[CLIENTS].acknowledged == 0):
            sys.exit(f"{method}: the clients did nothing")
    finally:
        if sys.exc_info()[0] is not SystemExit or sys.exc_info()[1].code is None:
            shutil.rmtree(root, ignore_errors=True)
    waits.sort()
    print(
        f"{method}: {rounds} kills, {transfers} transfers and {ledgers[CLIENTS].acknowledged} batches acknowledged and there;"
        f" first answer after {1000 * waits[len(waits) // 2]:.0f} ms (median), {1000 * waits[-1]:.0f} ms (most)"
    )


main()
