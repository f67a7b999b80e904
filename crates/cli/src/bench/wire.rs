//! `bench wire`: an empty server, ours and PostgreSQL, under the same clients.
//!
//! Each server is a process of its own, so that its processor time can be told from the client's.
//! In each round they take turns, forwards and then backwards, so that a machine that gets slower
//! meanwhile favours none of them; medians of the rounds count.

use crate::args::{FloorArgs, WireBenchArgs, WireScript};
use crate::output::{Cell, Format, Listing, note};
use crate::scratch::{Ending, Scratch};
use anyhow::{Context, Result, bail, ensure};
use indelible::{Database, Options};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The transaction of pgbench; its own scripts ask questions first that a floor cannot answer.
const TPCB: &str = "\
\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";
const SELECT: &str = "\
\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
";
/// Programs of PostgreSQL that are not on the path, as Debian installs them.
const DEBIAN: &str = "/usr/lib/postgresql";
/// PostgreSQL does not run as root; then it runs as nobody.
const NOBODY: u32 = 65_534;
const START_WAIT: Duration = Duration::from_mins(1);
/// The kernel counts processor time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server that runs.
struct Server {
    name: &'static str,
    process: Child,
    /// It ends with this process as well.
    ending: Ending,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM would let PostgreSQL wait for clients; its files are scratch.
        let _ = self.process.kill();
        self.ending.wait(&mut self.process);
    }
}

/// What one server did under some clients, in each round.
#[derive(Default)]
struct Measured {
    tps: Vec<f64>,
    cpu_us: Vec<f64>,
}

/// Runs `bench floor`.
pub(super) fn floor(args: &FloorArgs) -> Result<()> {
    let listener = TcpListener::bind(args.listen)?;
    eprintln!("ready on {}", listener.local_addr()?);
    Ok(server::serve_floor(&listener)?)
}

/// Runs the command.
pub(super) fn run(args: &WireBenchArgs, format: Format) -> Result<()> {
    let parent = args.path.clone().unwrap_or_else(Scratch::root);
    let scratch = Scratch::in_directory(&parent)?;
    if let Some(connections) = args.idle {
        return idle(args, scratch.path(), connections, format);
    }
    ensure!(
        Command::new("pgbench").arg("--version").output().is_ok(),
        "pgbench is the client of all servers, and is not installed (Debian: postgresql-contrib)"
    );
    let mut servers = vec![start_floor()?, start_ours(args, scratch.path(), 100)?];
    match postgres_programs().filter(|_| !args.no_postgres) {
        Some(programs) => servers.push(start_postgres(&programs, scratch.path())?),
        None => note("PostgreSQL is not there, or left out"),
    }
    for server in &servers[1..] {
        load(server, args.scale).with_context(|| server.name)?;
    }
    let script = scratch.path().join("script.sql");
    fs::write(
        &script,
        match args.script {
            WireScript::Tpcb => TPCB,
            WireScript::Select => SELECT,
        },
    )?;
    let mut listing = Listing::new([
        "server",
        "clients",
        "tps",
        "server_cpu_us",
        "tps_of_floor",
        "tps_of_postgres",
        "cpu_of_postgres",
    ]);
    for clients in &args.clients {
        let mut all: Vec<Measured> = servers.iter().map(|_| Measured::default()).collect();
        for round in 0..args.rounds {
            let mut order: Vec<usize> = (0..servers.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                measure(&servers[at], args, *clients, &script, &mut all[at])
                    .with_context(|| servers[at].name)?;
            }
        }
        push_rows(&mut listing, &servers, *clients, &all);
    }
    listing.print(format)
}

fn push_rows(listing: &mut Listing, servers: &[Server], clients: u32, all: &[Measured]) {
    let ratio = |one: f64, other: Option<f64>| match other {
        Some(other) if other > 0.0 => Cell::number(one / other, 2),
        _ => Cell::Null,
    };
    let medians = all
        .iter()
        .map(|measured| (median(&measured.tps), median(&measured.cpu_us)));
    let medians: Vec<(f64, f64)> = medians.collect();
    let postgres = servers.iter().position(|server| server.name == "postgres");
    for (server, (tps, cpu_us)) in servers.iter().zip(&medians) {
        listing.push(vec![
            server.name.into(),
            Cell::Whole(clients.into()),
            Cell::number(*tps, 0),
            Cell::number(*cpu_us, 1),
            ratio(*tps, Some(medians[0].0)),
            ratio(*tps, postgres.map(|at| medians[at].0)),
            ratio(*cpu_us, postgres.map(|at| medians[at].1)),
        ]);
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// One run of the clients on a server.
fn measure(
    server: &Server,
    args: &WireBenchArgs,
    clients: u32,
    script: &Path,
    measured: &mut Measured,
) -> Result<()> {
    let before = cpu_seconds(server.process.id())?;
    let mut command = pgbench(server);
    command
        .args(["-n", "-M", &args.protocol, "-f"])
        .arg(script)
        .args(["-D", &format!("scale={}", args.scale)])
        .args([
            "-c",
            &clients.to_string(),
            "-j",
            &clients.min(2).to_string(),
        ])
        .args(["-T", &args.seconds.to_string(), "postgres"]);
    let output = output(&mut command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "pgbench failed: {}", failed());
    let cpu = cpu_seconds(server.process.id())? - before;
    let number = |start: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(start))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let tps = number("tps = ").context("pgbench has printed no tps")?;
    let transactions = number("number of transactions actually processed: ");
    let transactions = transactions.context("pgbench has printed no number of transactions")?;
    measured.tps.push(tps);
    measured.cpu_us.push(cpu * 1e6 / transactions.max(1.0));
    Ok(())
}

fn pgbench(server: &Server) -> Command {
    let mut command = Command::new("pgbench");
    command
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", server.port.to_string())
        .env("PGUSER", "postgres")
        .env("PGSSLMODE", "disable");
    command
}

/// The output of a client, which ends with this process.
fn output(command: &mut Command) -> Result<Output> {
    let client = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let _ending = Ending::of(&client);
    Ok(client.wait_with_output()?)
}

/// Fills the tables of the bank.
fn load(server: &Server, scale: u32) -> Result<()> {
    let scale = scale.to_string();
    let output = output(pgbench(server).args(["-i", "-q", "-s", &scale, "postgres"]))?;
    let failed = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "pgbench -i failed: {}", failed());
    Ok(())
}

fn start_floor() -> Result<Server> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "floor", "127.0.0.1:0"]);
    start("floor", &mut command)
}

fn start_ours(args: &WireBenchArgs, scratch: &Path, connections: u32) -> Result<Server> {
    let path = scratch.join("ours");
    Database::create(&path, &Options::new().method(args.method))?.close()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["serve", "--trust", "--listen", "127.0.0.1:0"])
        .args(["--max-connections", &connections.to_string()])
        .arg(&path);
    start("ours", &mut command)
}

/// Starts a server that prints `ready on 127.0.0.1:PORT`.
fn start(name: &'static str, command: &mut Command) -> Result<Server> {
    let mut process = command.stderr(Stdio::piped()).spawn()?;
    let ending = Ending::of(&process);
    let mut lines = BufReader::new(process.stderr.take().context("it was asked for")?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let address = line
        .strip_prefix("ready on ")
        .and_then(|rest| rest.split_whitespace().next());
    let port = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
    // Whatever it prints later must not stop it.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let server = Server {
        name,
        process,
        ending,
        port: port.unwrap_or(0),
    };
    ensure!(port.is_some(), "{name} did not start: {}", line.trim());
    Ok(server)
}

/// The directory with the programs of PostgreSQL.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    places.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    places.extend(std::env::split_paths(&path));
    let mut places = places.into_iter();
    places.find(|place| place.join("initdb").exists() && place.join("postgres").exists())
}

/// Starts PostgreSQL with its files in the scratch directory and otherwise as it is installed.
fn start_postgres(programs: &Path, scratch: &Path) -> Result<Server> {
    let data = scratch.join("postgres");
    fs::create_dir(&data)?;
    let is_root = rustix::process::geteuid().is_root();
    let program = |name: &str| {
        let mut command = Command::new(programs.join(name));
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    if is_root {
        chown(&data, Some(NOBODY), Some(NOBODY))?;
    }
    let made = program("initdb")
        .args(["-A", "trust", "-U", "postgres", "-D"])
        .arg(&data)
        .status()?;
    ensure!(made.success(), "initdb failed in {}", data.display());
    // A port that is free now.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let process = program("postgres")
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string(), "-c", "unix_socket_directories="])
        .spawn()?;
    let server = Server {
        name: "postgres",
        ending: Ending::of(&process),
        process,
        port,
    };
    let start = Instant::now();
    while begin_session(port).is_err() {
        ensure!(start.elapsed() < START_WAIT, "PostgreSQL did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(server)
}

/// Processor time of a server and its children, those that have ended among them.
fn cpu_seconds(process: u32) -> Result<f64> {
    let mut ticks = own_ticks(process, true).context("the server has ended")?;
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    for child in children.unwrap_or_default().split_whitespace() {
        ticks += own_ticks(child.parse()?, false).unwrap_or(0);
    }
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

/// Processor time of a process in ticks, with that of the children that it has waited for.
fn own_ticks(process: u32, with_ended: bool) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let times = fields
        .split_whitespace()
        .skip(11)
        .take(if with_ended { 4 } else { 2 });
    times.map(|time| time.parse::<u64>().ok()).sum()
}

/// A session that has begun.
fn begin_session(port: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(START_WAIT))?;
    stream.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0")?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length).saturating_sub(4);
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body)?;
        match kind {
            b'Z' => return Ok(stream),
            b'E' => bail!("the server refuses: {}", String::from_utf8_lossy(&body)),
            _ => {}
        }
    }
}

/// Memory of our server under idle connections.
fn idle(args: &WireBenchArgs, scratch: &Path, connections: u32, format: Format) -> Result<()> {
    let server = start_ours(args, scratch, connections + 10)?;
    let resident = || -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", server.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        Ok(kib
            .context("the kernel does not tell the memory")?
            .parse()?)
    };
    let one = begin_session(server.port)?;
    let before = resident()?;
    let sessions = (0..connections).map(|_| begin_session(server.port));
    let sessions = sessions.collect::<Result<Vec<_>>>()?;
    let taken = resident()?.saturating_sub(before);
    let mut listing = Listing::new(["server", "idle_connections", "kib", "kib_each"]);
    listing.push(vec![
        "ours".into(),
        Cell::Whole(connections.into()),
        Cell::Whole(taken),
        Cell::number(taken as f64 / f64::from(connections), 1),
    ]);
    drop((one, sessions));
    listing.print(format)
}
