//! Facts about this machine and this build, which a reader needs to compare a result row with
//! another.
//!
//! Nothing here names the host, its user or its paths: rows are published. Facts that the system
//! does not tell are `unknown`, never guessed.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// Instructions that measurements depend on, by their names in the list of the kernel.
const FLAGS: [&str; 11] = [
    "avx2",
    "avx512f",
    "bmi2",
    "clflushopt",
    "clwb",
    "constant_tsc",
    "erms",
    "hypervisor",
    "movdir64b",
    "nonstop_tsc",
    "sse4_2",
];

/// A machine, as far as it explains a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model name of the processor.
    pub cpu: String,
    /// Logical processors that this process may use.
    pub cores: usize,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Operating system kernel.
    pub kernel: String,
    /// File system that holds the database.
    pub filesystem: String,
    /// Instructions of the processor that measurements depend on; rows of earlier versions lack
    /// this and the facts below it.
    #[serde(default)]
    pub cpu_flags: String,
    /// The kernel's setting for transparent huge pages.
    #[serde(default)]
    pub huge_pages: String,
    /// The compiler that built the program.
    #[serde(default)]
    pub compiler: String,
    /// Length and check sum of the program's file, in hexadecimal.
    #[serde(default)]
    pub binary: String,
}

impl Machine {
    /// The machine at hand, with the file system that `database` lies on, or will lie on, and the
    /// compiler of the program.
    pub fn here(database: &Path, compiler: &str) -> Self {
        Self {
            cpu: cpu_model().unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes().unwrap_or(0),
            kernel: kernel(),
            filesystem: filesystem(database).unwrap_or_else(unknown),
            cpu_flags: cpu_flags().unwrap_or_else(unknown),
            huge_pages: huge_pages().unwrap_or_else(unknown),
            compiler: compiler.into(),
            binary: binary(),
        }
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        format!(
            "{}, {} cores, {:.0} GiB, {}, {}",
            self.cpu,
            self.cores,
            self.memory_bytes as f64 / f64::from(1 << 30),
            self.kernel,
            self.filesystem
        )
    }
}

/// A name for bytes: FNV-1a, 64 bits, in hexadecimal. It identifies; it does not protect.
pub fn fnv(bytes: &[u8]) -> String {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    });
    format!("{hash:016x}")
}

fn unknown() -> String {
    "unknown".into()
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    field(&text, "model name").map(str::to_owned)
}

fn cpu_flags() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let all: Vec<&str> = field(&text, "flags")?.split_whitespace().collect();
    let own: Vec<&str> = FLAGS
        .into_iter()
        .filter(|flag| all.contains(flag))
        .collect();
    Some(own.join(" "))
}

/// The choice in brackets, as in `always [madvise] never`.
fn huge_pages() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, chosen) = text.split_once('[')?;
    Some(chosen.split_once(']')?.0.to_owned())
}

/// Whether a program of this commit was built from changes that no commit has: a plus marks them.
pub fn is_dirty(commit: &str) -> bool {
    commit.ends_with('+')
}

/// Length and CRC-32C of the program's file, computed once. Each run of a benchmark needs it, so it
/// has to be fast in a program of a hundred megabytes, which one without optimisation is.
pub fn binary() -> String {
    static BINARY: OnceLock<String> = OnceLock::new();
    let sum = || {
        let mut file = File::open(std::env::current_exe().ok()?).ok()?;
        let mut piece = vec![0; 1 << 20];
        let (mut bytes, mut sum) = (0, 0);
        loop {
            match file.read(&mut piece).ok()? {
                0 => return Some(format!("{bytes:08x}{sum:08x}")),
                read => {
                    bytes += read;
                    sum = crc32c::crc32c_append(sum, &piece[..read]);
                }
            }
        }
    };
    BINARY.get_or_init(|| sum().unwrap_or_else(unknown)).clone()
}

fn memory_bytes() -> Option<u64> {
    memory_field("MemTotal")
}

/// Memory that could be used without swapping; none if the system does not say.
pub fn available_bytes() -> Option<u64> {
    memory_field("MemAvailable")
}

fn memory_field(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = field(&text, name)?
        .trim_end_matches("kB")
        .trim()
        .parse()
        .ok()?;
    Some(kib * 1024)
}

fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    match release {
        Some(release) => format!("{} {}", std::env::consts::OS, release.trim()),
        None => std::env::consts::OS.to_owned(),
    }
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Type of the file system under the nearest directory of `path` that exists.
fn filesystem(path: &Path) -> Option<String> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    let existing = if existing.as_os_str().is_empty() {
        Path::new(".")
    } else {
        existing
    };
    let stat = rustix::fs::statfs(existing).ok()?;
    // The kernel's magic numbers; the field is signed on some platforms and its upper half carries
    // nothing.
    let name = match stat.f_type.cast_unsigned() & 0xFFFF_FFFF {
        0x0102_1994 => "tmpfs",
        0x9584_58F6 => "hugetlbfs",
        0x0000_EF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x794C_7630 => "overlayfs",
        0x0000_6969 => "nfs",
        0x2FC1_2FC1 => "zfs",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        other => return Some(format!("type {other:#x}")),
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv(b""), "cbf29ce484222325");
        assert_eq!(fnv(b"foobar"), "85944171f73967e8");
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "model\t: 5\nmodel name\t: Example CPU\nMemTotal:  16 kB\n";
        assert_eq!(field(text, "model name"), Some("Example CPU"));
        assert_eq!(field(text, "MemTotal"), Some("16 kB"));
        assert_eq!(field(text, "Mem"), None);
    }

    #[test]
    fn a_missing_directory_is_judged_by_its_parent() {
        let here = filesystem(Path::new("."));
        assert_eq!(filesystem(Path::new("./no/such/directory")), here);
        assert!(here.is_some());
    }
}
