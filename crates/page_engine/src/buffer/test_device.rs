//! A device for tests with many threads: what is durable is known at every moment, and a test
//! decides how long a call takes.
//!
//! A sync makes durable what was written before it began and nothing that is written while it runs,
//! which is the least that a device promises. A segment must not get its name before everything
//! preceding it is durable, which the device checks.

use disk::{Directory, DiskCounters, DiskError, File, Result};
use pmem::Site;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

/// Runs in the middle of a call; says whether it succeeds.
type Meanwhile = Arc<dyn Fn(Call) -> bool + Send + Sync>;

/// A call in the middle of which a test has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A sync that makes records durable.
    SyncLog,
    /// The creation of a file of the log, or of a page file.
    Create,
    /// A sync of the directory.
    SyncDirectory,
    /// A read of a page.
    ReadPage,
    /// A write of pages.
    WritePages,
    /// A sync that makes pages durable.
    SyncPages,
}

/// An access to a place in the file of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It was prefetched.
    Named(u64),
    /// It was read.
    Read(u64),
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
}

type Shared = Arc<Mutex<Content>>;

/// The device.
#[derive(Clone)]
pub(crate) struct Device {
    files: Arc<Mutex<BTreeMap<String, Shared>>>,
    /// Syncs that made records durable.
    syncs: Arc<Mutex<u64>>,
    meanwhile: Meanwhile,
    touches: Arc<Mutex<Vec<Touch>>>,
}

/// A file on it.
pub(crate) struct DeviceFile {
    content: Shared,
    device: Device,
    has_pages: bool,
}

impl DeviceFile {
    fn page_call(&self, call: Call) -> Result<()> {
        if self.has_pages && !(self.device.meanwhile)(call) {
            return Err(failure("pages", ErrorKind::Other));
        }
        Ok(())
    }
}

impl Device {
    pub(crate) fn new(meanwhile: impl Fn(Call) -> bool + Send + Sync + 'static) -> Self {
        Self {
            files: Arc::default(),
            syncs: Arc::default(),
            meanwhile: Arc::new(meanwhile),
            touches: Arc::default(),
        }
    }

    /// Syncs of records that have ended.
    pub(crate) fn syncs(&self) -> u64 {
        *self.syncs.lock().unwrap()
    }

    /// Accesses to the file of pages since the last call, in order.
    pub(crate) fn take_touches(&self) -> Vec<Touch> {
        std::mem::take(&mut *self.touches.lock().unwrap())
    }

    fn touch(&self, touch: Touch) {
        self.touches.lock().unwrap().push(touch);
    }

    /// Names of the files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.files.lock().unwrap().keys().cloned().collect()
    }

    /// The device after a power cut that keeps as little as it may.
    pub(crate) fn after_power_cut(&self) -> Self {
        let left = Self::new(|_| true);
        for (name, content) in &*self.files.lock().unwrap() {
            let durable = content.lock().unwrap().durable.clone();
            let content = Content {
                now: durable.clone(),
                durable,
            };
            let content = Arc::new(Mutex::new(content));
            left.files.lock().unwrap().insert(name.clone(), content);
        }
        left
    }

    fn file(&self, name: &str, content: Shared) -> DeviceFile {
        DeviceFile {
            has_pages: name.contains("pages"),
            content,
            device: self.clone(),
        }
    }
}

fn failure(name: &str, kind: ErrorKind) -> DiskError {
    DiskError::Io {
        action: "use",
        path: name.into(),
        source: kind.into(),
    }
}

/// Whether a file has records, in a segment or a spare.
fn is_log(name: &str) -> bool {
    name.contains(".wal")
}

impl Directory for Device {
    type File = DeviceFile;

    fn create(&self, name: &str) -> Result<DeviceFile> {
        if !(self.meanwhile)(Call::Create) {
            return Err(failure(name, ErrorKind::Other));
        }
        let content = Shared::default();
        let mut files = self.files.lock().unwrap();
        files.insert(name.to_owned(), Arc::clone(&content));
        Ok(self.file(name, content))
    }

    fn open(&self, name: &str) -> Result<DeviceFile> {
        let found = self.files.lock().unwrap().get(name).cloned();
        let content = found.ok_or_else(|| failure(name, ErrorKind::NotFound))?;
        Ok(self.file(name, content))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.names())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.files.lock().unwrap().contains_key(name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut files = self.files.lock().unwrap();
        // A file that becomes a spare is not needed, so appends to others may be pending.
        let is_segment = !to.contains("-spare");
        let logs = files.iter().filter(|(name, _)| is_log(name));
        for (name, content) in logs.filter(|_| is_segment) {
            let content = content.lock().unwrap();
            assert!(
                content.now == content.durable,
                "{to} gets its name while {name} has something that is not durable"
            );
        }
        let content = files.remove(from);
        let content = content.ok_or_else(|| failure(from, ErrorKind::NotFound))?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn sync(&self, _site: &'static Site) -> Result<()> {
        if !(self.meanwhile)(Call::SyncDirectory) {
            return Err(failure("directory", ErrorKind::Other));
        }
        Ok(())
    }

    fn counters(&self) -> DiskCounters {
        DiskCounters::default()
    }
}

impl File for DeviceFile {
    fn reader(&self) -> Result<Self> {
        Ok(Self {
            content: Arc::clone(&self.content),
            device: self.device.clone(),
            has_pages: self.has_pages,
        })
    }

    fn bytes(&self) -> Result<u64> {
        Ok(self.content.lock().unwrap().now.len() as u64)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.page_call(Call::ReadPage)?;
        if self.has_pages {
            self.device.touch(Touch::Read(offset));
        }
        let content = self.content.lock().unwrap();
        let from = offset as usize;
        let bytes = content.now.get(from..from + out.len());
        let bytes = bytes.ok_or_else(|| failure("file", ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn will_read(&self, offset: u64, _bytes: u64) {
        self.device.touch(Touch::Named(offset));
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.page_call(Call::WritePages)?;
        let now = &mut self.content.lock().unwrap().now;
        let (from, end) = (offset as usize, offset as usize + data.len());
        if now.len() < end {
            now.resize(end, 0);
        }
        now[from..end].copy_from_slice(data);
        Ok(())
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<()> {
        self.content.lock().unwrap().now.resize(bytes as usize, 0);
        Ok(())
    }

    fn sync(&mut self, site: &'static Site) -> Result<()> {
        let written = self.content.lock().unwrap().now.clone();
        self.page_call(Call::SyncPages)?;
        if site.name == "wal.flush" {
            let succeeds = (self.device.meanwhile)(Call::SyncLog);
            *self.device.syncs.lock().unwrap() += 1;
            if !succeeds {
                return Err(failure("file", ErrorKind::Other));
            }
        }
        self.content.lock().unwrap().durable = written;
        Ok(())
    }
}
