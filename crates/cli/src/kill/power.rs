//! The power of a file system: cut while a process runs, and switched on again.
//!
//! A cut is the file system's own shutdown request without a flush of its journal. Data that no
//! sync has brought to the device is lost, and the next mount replays the journal, as after a power
//! failure. The cut hits everything on the file system, so only a loop device is accepted. It
//! cannot show a device that lies about its own cache.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Tries to unmount a file system whose last user has just died, and the pause between them.
const UNMOUNT_TRIES: u32 = 100;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(20);

/// A mounted file system that may lose its power.
pub(crate) struct Mount {
    point: PathBuf,
    kind: String,
    /// The file behind the loop device.
    image: PathBuf,
}

impl Mount {
    /// The file system that is mounted at `point`, which must be a loop device.
    pub(crate) fn at(point: &Path) -> Result<Self> {
        let shown = point.display();
        let point =
            fs::canonicalize(point).with_context(|| format!("there is no directory {shown}"))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        // Fields: number, parent, device, root, mount point, options, ..., `-`, type, source.
        let mut found = None;
        for line in mounts.lines() {
            let Some((before, after)) = line.split_once(" - ") else {
                continue;
            };
            let mounted = before.split(' ').nth(4).unwrap_or_default();
            let mut after = after.split(' ');
            if Path::new(mounted) == point
                && let (Some(kind), Some(source)) = (after.next(), after.next())
            {
                found = Some((kind.to_owned(), source.to_owned()));
            }
        }
        let device = found
            .as_ref()
            .and_then(|(_, source)| source.strip_prefix("/dev/"));
        let Some(device) = device.filter(|device| device.starts_with("loop")) else {
            bail!(
                "{shown} is not the mount point of a loop device, and a power cut hits everything on a file system; \
                 make one: truncate -s 256M disk.img && mkfs.ext4 -q disk.img && mount -o loop disk.img {shown}"
            );
        };
        let image = fs::read_to_string(format!("/sys/block/{device}/loop/backing_file"))?;
        let kind = found.map(|(kind, _)| kind).unwrap_or_default();
        Ok(Self {
            point,
            kind,
            image: image.trim_end().into(),
        })
    }

    /// Directory of a new database; one that an earlier run left is removed.
    pub(super) fn new_database(&self) -> Result<PathBuf> {
        let path = self.point.join("cut.db");
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        Ok(path)
    }

    /// Cuts the power: every later call of any process on it fails.
    pub(super) fn cut_power(&self) -> Result<()> {
        Ok(pmem::device::shut_down_file_system(&self.point)?)
    }

    /// Unmounts and mounts again, after which it works. No process may use it.
    pub(super) fn power_on(&self) -> Result<()> {
        let mut tries = 0;
        while let Err(error) = run(Command::new("umount").arg(&self.point)) {
            tries += 1;
            ensure!(tries < UNMOUNT_TRIES, "{error:#}");
            std::thread::sleep(UNMOUNT_PAUSE);
        }
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop", "-t", &self.kind]);
        run(mount.arg(&self.image).arg(&self.point))
    }
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", errors.trim());
    Ok(())
}
