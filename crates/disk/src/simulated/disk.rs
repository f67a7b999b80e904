//! The simulated disk: names and files, live and durable, and the unsynced changes between them.
//!
//! Invariants: `live` of a file is the content that reads see; `durable` is the content that surely
//! survives; `unsynced` holds, in order, the changes that may survive on top. The same holds for
//! `names`, `durable_names` and `name_changes`. A file stays as long as a name, durable or not, or
//! a handle refers to it.

use super::content::Content;
use super::fault::Faults;
use super::operation::{Change, NameChange, Operation};
use super::watch::Watch;
use crate::DiskCounters;
use pmem::device::simulated::{Attachment, ReadLog, Unit, UnitChoice, mix};
use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One directory of one world, on a disk of its own.
pub(super) struct SimulatedDisk {
    pub(super) name: String,
    state: Mutex<DiskState>,
}

/// Everything on the disk.
#[derive(Default)]
pub(super) struct DiskState {
    pub(super) names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    name_changes: Vec<NameChange>,
    files: BTreeMap<u64, FileState>,
    next_sequence: u64,
    next_file: u64,
    pub(super) counters: DiskCounters,
    pub(super) faults: Faults,
    pub(super) space_bytes: Option<u64>,
    /// Notes reads of changes that were undecided on the disk of which this one is an image.
    watch: Option<Watch>,
}

/// One file.
#[derive(Default)]
pub(super) struct FileState {
    pub(super) live: Content,
    durable: Content,
    unsynced: Vec<Operation>,
    pub(super) handles: u32,
}

impl FileState {
    /// The content in an image; the one that is certain where the choices add nothing to it.
    fn image(&self, choices: &Choices) -> Cow<'_, Content> {
        let mut content = Cow::Borrowed(&self.durable);
        for operation in &self.unsynced {
            if let Some(choice) = choices.get(&operation.sequence) {
                operation.apply_choice(content.to_mut(), choice);
            }
        }
        content
    }
}

/// The surviving part of each undecided change that is not lost, by its number.
type Choices = BTreeMap<u64, UnitChoice>;

/// The effect of a sync on the unsynced changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Durable,
    Lost,
    /// Each one by itself, decided by its number.
    Mixed,
}

impl Outcome {
    fn keeps(self, sequence: u64) -> bool {
        match self {
            Self::Durable => true,
            Self::Lost => false,
            Self::Mixed => mix(sequence) & 1 == 1,
        }
    }
}

impl SimulatedDisk {
    /// An empty directory.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::default(),
        }
    }

    /// The state; also after a panic elsewhere, because a test that caught it may still want to
    /// look.
    pub(super) fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskState {
    /// A file that is open.
    pub(super) fn file(&mut self, file: u64) -> &mut FileState {
        self.files
            .get_mut(&file)
            .expect("a file with a handle stays")
    }

    /// Makes an empty file and returns its number.
    pub(super) fn create(&mut self, name: &str) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, FileState::default());
        self.change_names(vec![(name.to_owned(), Some(file))]);
        file
    }

    /// Sets names, all in one step.
    pub(super) fn change_names(&mut self, sets: Vec<(String, Option<u64>)>) {
        let change = NameChange {
            sequence: self.sequence(),
            sets,
        };
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    /// Changes a file's content.
    pub(super) fn change(&mut self, file: u64, change: Change) {
        let operation = Operation {
            sequence: self.sequence(),
            change,
        };
        let file = self.file(file);
        operation.apply(&mut file.live);
        file.unsynced.push(operation);
    }

    /// Whether a sync of the file would have anything to do.
    pub(super) fn is_unsynced(&self, file: u64) -> bool {
        self.files
            .get(&file)
            .is_some_and(|file| !file.unsynced.is_empty())
    }

    /// Whether a sync of the directory would have anything to do.
    pub(super) fn has_name_changes(&self) -> bool {
        !self.name_changes.is_empty()
    }

    /// Decides the unsynced changes of a file.
    pub(super) fn settle(&mut self, file: u64, outcome: Outcome) {
        let file = self.file(file);
        for operation in file.unsynced.drain(..) {
            if outcome.keeps(operation.sequence) {
                operation.apply(&mut file.durable);
            }
        }
    }

    /// Decides the unsynced changes of names.
    pub(super) fn settle_names(&mut self, outcome: Outcome) {
        for change in self.name_changes.drain(..) {
            if outcome.keeps(change.sequence) {
                change.apply(&mut self.durable_names);
            }
        }
        self.drop_unreachable();
    }

    /// Bytes of all files, as reads see them.
    pub(super) fn used_bytes(&self) -> u64 {
        self.files.values().map(|file| file.live.bytes()).sum()
    }

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    fn drop_unreachable(&mut self) {
        // A power cut may leave a name that has been removed again.
        let undecided = self.name_changes.iter().flat_map(|change| &change.sets);
        let named = self
            .names
            .values()
            .chain(self.durable_names.values())
            .chain(undecided.filter_map(|(_, file)| file.as_ref()))
            .copied();
        let named: BTreeSet<u64> = named.collect();
        self.files
            .retain(|number, file| file.handles > 0 || named.contains(number));
    }

    /// The names of an image; the certain ones if the choices change none of them.
    fn image_names(&self, choices: &Choices) -> Cow<'_, BTreeMap<String, u64>> {
        let mut names = Cow::Borrowed(&self.durable_names);
        for change in &self.name_changes {
            if choices
                .get(&change.sequence)
                .is_some_and(|choice| choice.kept > 0)
            {
                change.apply(names.to_mut());
            }
        }
        names
    }

    fn image(&self, choices: &Choices) -> Self {
        let names = self.image_names(choices).into_owned();
        let mut files = BTreeMap::new();
        for number in names.values() {
            let Some(file) = self.files.get(number) else {
                continue;
            };
            let content = file.image(choices).into_owned();
            let image = FileState {
                live: content.clone(),
                durable: content,
                ..FileState::default()
            };
            files.insert(*number, image);
        }
        Self {
            names: names.clone(),
            durable_names: names,
            files,
            next_sequence: self.next_sequence,
            next_file: self.next_file,
            space_bytes: self.space_bytes,
            watch: self.watch.clone(),
            ..Self::default()
        }
    }

    /// The disk as the next process finds it: everything is visible, nothing more is certain, and
    /// nobody has a file open.
    fn death(&self) -> Self {
        let files = self.files.iter().map(|(number, file)| {
            let file = FileState {
                live: file.live.clone(),
                durable: file.durable.clone(),
                unsynced: file.unsynced.clone(),
                handles: 0,
            };
            (*number, file)
        });
        let mut next = Self {
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            name_changes: self.name_changes.clone(),
            files: files.collect(),
            next_sequence: self.next_sequence,
            next_file: self.next_file,
            space_bytes: self.space_bytes,
            watch: self.watch.clone(),
            ..Self::default()
        };
        next.drop_unreachable();
        next
    }

    fn image_hash(&self, choices: &Choices) -> u64 {
        let names = self.image_names(choices);
        names.iter().fold(1, |hash, (name, number)| {
            let name = name
                .bytes()
                .fold(name.len() as u64, |hash, byte| mix(hash ^ u64::from(byte)));
            let file = self.files.get(number);
            let content = file.map_or(0, |file| file.image(choices).hash());
            mix(hash ^ mix(name ^ content))
        })
    }

    /// The undecided changes here, by file; undecided names are noted as read at once.
    fn undecided(&self, device: u32, log: &ReadLog) -> Watch {
        for change in &self.name_changes {
            log.note(device, change.sequence);
        }
        let mut watch = Watch::new(device, log);
        for (number, file) in &self.files {
            for operation in &file.unsynced {
                watch.add(*number, operation);
            }
        }
        watch
    }

    /// A range of a file is read.
    pub(super) fn note_read(&mut self, file: u64, range: Range<u64>) {
        if let Some(watch) = &mut self.watch {
            watch.read(file, &range);
        }
    }

    /// The length of a file is read.
    pub(super) fn note_length(&mut self, file: u64) {
        if let Some(watch) = &mut self.watch {
            watch.length(file);
        }
    }
}

impl Attachment for SimulatedDisk {
    fn units(&self, device: u32) -> Vec<Unit> {
        let state = self.lock();
        let mut units: Vec<_> = state
            .name_changes
            .iter()
            .map(|change| change.unit(device))
            .collect();
        for file in state.files.values() {
            units.extend(file.unsynced.iter().map(|operation| operation.unit(device)));
        }
        units
    }

    fn image(&self, choices: &[UnitChoice]) -> Arc<dyn Attachment> {
        let state = Mutex::new(self.lock().image(&by_index(choices)));
        Arc::new(Self {
            name: self.name.clone(),
            state,
        })
    }

    fn death(&self) -> Arc<dyn Attachment> {
        let state = Mutex::new(self.lock().death());
        Arc::new(Self {
            name: self.name.clone(),
            state,
        })
    }

    fn notes_reads(&self) -> bool {
        true
    }

    fn watch(&self, origin: &dyn Attachment, device: u32, log: &ReadLog) {
        let origin: &dyn Any = origin;
        if let Some(origin) = origin.downcast_ref::<Self>() {
            let watch = origin.lock().undecided(device, log);
            self.lock().watch = Some(watch);
        }
    }

    fn unwatch(&self) {
        self.lock().watch = None;
    }

    fn hash(&self) -> u64 {
        self.image_hash(&[])
    }

    fn image_hash(&self, choices: &[UnitChoice]) -> u64 {
        self.lock().image_hash(&by_index(choices))
    }
}

fn by_index(choices: &[UnitChoice]) -> Choices {
    let choices = choices.iter();
    choices.map(|choice| (choice.index, *choice)).collect()
}
