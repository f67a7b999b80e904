//! The simulated world: everything that one power cut hits.
//!
//! A [`SimulatedWorld`] is a handle; clones are the same world. It owns the durable memories, knows
//! the attached devices, and calls an observer at each crash point. Images are worlds as well, with
//! an observer of their own, so recovery can be cut off again. Locks are taken in the order world,
//! memory, sites, and none is held while an observer runs: it may take images and use them.

use super::attachment::Attachment;
use super::choice::ImageChoice;
use super::fault::{MemoryCall, MemoryFault, MemoryFaults};
use super::lines::MemoryState;
use super::medium::{Content, Profile, lock, mix};
use super::memory::SimulatedSource;
use super::region::{Region, Template};
use super::sites::{Disabled, SiteKind, SiteReport, SiteTable};
use super::unit::Unit;
use super::watch::ReadLog;
use crate::device::{Domain, LINE_BYTES, PowerFailAtomicity, Site};
use crate::error::{PmemError, Result};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

/// Devices of units from here on are attachments.
const FIRST_ATTACHMENT: u32 = 1 << 16;
/// Reserved volatile regions that are kept for the next volatile memories of any world. The last
/// one used is the next, because the processor's cache and the kernel have its pages ready.
const SPARE_REGIONS_MAX: usize = 16;
static SPARE_REGIONS: Mutex<Vec<Region>> = Mutex::new(Vec::new());

/// Properties of a world's medium.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Where all garbage comes from.
    pub seed: u64,
    /// The stores that survive without a flush.
    pub profile: Profile,
    /// Whether a line stored by one instruction can tear.
    pub atomicity: PowerFailAtomicity,
    /// The content of new memory.
    pub content: Content,
    /// Where the observer is called.
    pub points: Points,
    /// Bytes that a durable memory can grow to. This is address space: unused bytes cost nothing.
    pub capacity_bytes: u64,
    /// Bytes that a volatile memory can grow to.
    pub volatile_capacity_bytes: u64,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            profile: Profile::Default,
            atomicity: PowerFailAtomicity::Word,
            content: Content::Garbage,
            points: Points::Fences,
            capacity_bytes: 8 << 20,
            volatile_capacity_bytes: 64 << 20,
        }
    }
}

/// Where the observer is called, besides the marks of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// Before fences, syncs and changes of the set of memories. Every image of another moment is
    /// also one of these. In the flush-free profile that needs every store as well, because each is
    /// durable at once.
    Fences,
    /// Before every store as well: slow, and useful only to find where an image first becomes
    /// possible.
    Stores,
}

/// The moment at which the observer is called.
#[derive(Clone, Copy, Debug)]
pub enum CrashPoint {
    /// Before a fence takes effect.
    Fence(&'static Site),
    /// Before a sync of a file or directory takes effect.
    Sync(&'static Site),
    /// Before a memory is created, removed or grown, which is durable at once.
    Space,
    /// Before a store or a streaming store.
    Store,
    /// The test is about to call commit of the transaction with this number.
    CommitCall(u64),
    /// Commit of the transaction with this number has returned.
    Acknowledged(u64),
    /// Any other change of the states that a test allows.
    Mark(&'static str),
}

type Observer = Box<dyn FnMut(&SimulatedWorld, CrashPoint) + Send>;

/// A handle to everything that one power cut hits.
#[derive(Clone)]
pub struct SimulatedWorld {
    shared: Arc<Shared>,
}

struct Shared {
    options: WorldOptions,
    sites: Arc<Mutex<SiteTable>>,
    events: AtomicU64,
    stores: AtomicU64,
    observed: AtomicBool,
    observer: Mutex<Option<Observer>>,
    halt: Halt,
    state: Mutex<WorldState>,
}

/// Whether all threads but one wait at their next step.
#[derive(Default)]
struct Halt {
    is_on: AtomicBool,
    by: Mutex<Option<ThreadId>>,
    is_over: Condvar,
}

#[derive(Default)]
struct WorldState {
    memories: Vec<Arc<Mutex<MemoryState>>>,
    attachments: Vec<Arc<dyn Attachment>>,
    next_number: u32,
    space_bytes: Option<u64>,
    faults: MemoryFaults,
}

impl SimulatedWorld {
    /// An empty world.
    pub fn new(options: WorldOptions) -> Self {
        Self::with_sites(options, Arc::default())
    }

    fn with_sites(options: WorldOptions, sites: Arc<Mutex<SiteTable>>) -> Self {
        let shared = Shared {
            options,
            sites,
            events: AtomicU64::new(0),
            stores: AtomicU64::new(0),
            observed: AtomicBool::new(false),
            observer: Mutex::new(None),
            halt: Halt::default(),
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Where engines create and open the memories of this world.
    pub fn source(&self) -> SimulatedSource {
        SimulatedSource::new(self.clone())
    }

    /// Calls `observer` at each crash point of this world from now on, instead of any earlier one.
    /// It runs inside of the engine's call, before the step takes effect, and is not called while
    /// it runs. Images start without.
    pub fn observe(&self, observer: impl FnMut(&SimulatedWorld, CrashPoint) + Send + 'static) {
        *lock(&self.shared.observer) = Some(Box::new(observer));
        self.shared.observed.store(true, Ordering::Relaxed);
    }

    /// Ends [`SimulatedWorld::observe`] and drops the observer; from inside of the observer, after
    /// it has returned.
    pub fn unobserve(&self) {
        self.shared.observed.store(false, Ordering::Relaxed);
        *lock(&self.shared.observer) = None;
    }

    /// Runs `look` while every other thread waits before its next store, write, fence or sync. A
    /// step that a thread had begun before may still take effect, one a thread: it comes before or
    /// after `look` reads its device, and nothing depends on which. So an image or a
    /// [`death`](Self::death) that `look` takes is a state of all devices at one moment.
    pub fn halted<T>(&self, look: impl FnOnce() -> T) -> T {
        let halt = &self.shared.halt;
        *lock(&halt.by) = Some(std::thread::current().id());
        halt.is_on.store(true, Ordering::SeqCst);
        let seen = look();
        halt.is_on.store(false, Ordering::SeqCst);
        *lock(&halt.by) = None;
        halt.is_over.notify_all();
        seen
    }

    #[inline]
    fn wait_while_halted(&self) {
        let halt = &self.shared.halt;
        if halt.is_on.load(Ordering::SeqCst) {
            let me = std::thread::current().id();
            let by = lock(&halt.by);
            let others = |by: &mut Option<ThreadId>| by.is_some_and(|by| by != me);
            drop(halt.is_over.wait_while(by, others));
        }
    }

    /// A crash point.
    pub fn mark(&self, point: CrashPoint) {
        self.wait_while_halted();
        self.shared.events.fetch_add(1, Ordering::Relaxed);
        if !self.shared.observed.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut observer) = lock(&self.shared.observer).take() else {
            return;
        };
        observer(self, point);
        let mut place = lock(&self.shared.observer);
        if place.is_none() && self.shared.observed.load(Ordering::Relaxed) {
            *place = Some(observer);
        }
    }

    /// Counts a store, which is a crash point if the options say so. Attached devices call it
    /// before each write.
    pub fn before_store(&self) {
        self.wait_while_halted();
        self.shared.stores.fetch_add(1, Ordering::Relaxed);
        let options = &self.shared.options;
        if options.points == Points::Stores || options.profile == Profile::FlushFree {
            self.mark(CrashPoint::Store);
        } else {
            self.shared.events.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The units that a power cut now may leave in more than one state: dirty lines and unsynced
    /// disk operations.
    pub fn units(&self) -> Vec<Unit> {
        let mut units = Vec::new();
        for memory in self.memories() {
            units.extend(lock(&memory).units());
        }
        for (device, attachment) in (FIRST_ATTACHMENT..).zip(self.devices()) {
            units.extend(attachment.units(device));
        }
        units
    }

    /// The world as a power cut now would leave it, with no memory open, no observer and the same
    /// sites. Fails only if address space runs out.
    pub fn image(&self, choice: &ImageChoice) -> Result<Self> {
        let mut image =
            Self::with_sites(self.shared.options.clone(), Arc::clone(&self.shared.sites));
        self.image_into(choice, &mut image)?;
        Ok(image)
    }

    /// As [`SimulatedWorld::image`], into a world of this line of images: one that was made by
    /// `image` of this world or of one of its images, or one that this world is an image of.
    /// Repeated images of one world into one target cost time proportional to the touched lines,
    /// others to the lines that were ever stored to. `target` loses its observer and its faults.
    ///
    /// # Panics
    /// If a memory of `target` is open, or if `target` is this world.
    pub fn image_into(&self, choice: &ImageChoice, target: &mut Self) -> Result<()> {
        assert!(
            !Arc::ptr_eq(&self.shared, &target.shared),
            "a world cannot be its own image"
        );
        let attachments = self.devices().into_iter().zip(FIRST_ATTACHMENT..);
        let attachments: Vec<_> = attachments
            .map(|(attachment, device)| {
                let choices = choice.units.iter().copied();
                let choices: Vec<_> = choices.filter(|unit| unit.device == device).collect();
                attachment.image(&choices)
            })
            .collect();
        self.renew(target, attachments, &|memory, origin| {
            memory.apply(origin, &choice.units);
        })
    }

    /// As [`SimulatedWorld::image_into`], into `scratch`; the first image makes it.
    pub fn image_in<'a>(
        &self,
        choice: &ImageChoice,
        scratch: &'a mut Option<Self>,
    ) -> Result<&'a Self> {
        match scratch {
            Some(image) => self.image_into(choice, image)?,
            None => *scratch = Some(self.image(choice)?),
        }
        Ok(scratch.as_ref().expect("just made"))
    }

    /// The world as the next process finds it if everything that runs here dies now and the power
    /// stays on. Every store and write is visible; those that no fence or sync has made certain may
    /// be lost by a later power cut, each line and write by itself. A write-back that was started
    /// is not certain, and a fence of the next process does not make it so. As in an image, no
    /// memory is open and there is no observer.
    pub fn death(&self) -> Result<Self> {
        let mut next =
            Self::with_sites(self.shared.options.clone(), Arc::clone(&self.shared.sites));
        self.death_into(&mut next)?;
        Ok(next)
    }

    /// As [`SimulatedWorld::death`], into a world that may be reused as in
    /// [`SimulatedWorld::image_into`].
    ///
    /// # Panics
    /// As there.
    pub fn death_into(&self, target: &mut Self) -> Result<()> {
        assert!(
            !Arc::ptr_eq(&self.shared, &target.shared),
            "a world cannot be its own successor"
        );
        let attachments = self.devices().into_iter();
        let attachments = attachments.map(|attachment| attachment.death()).collect();
        self.renew(target, attachments, &MemoryState::inherit)
    }

    /// Gives `target` these devices, and the certain content of the memories here, to which `add`
    /// adds more.
    fn renew(
        &self,
        target: &mut Self,
        attachments: Vec<Arc<dyn Attachment>>,
        add: &dyn Fn(&mut MemoryState, &MemoryState),
    ) -> Result<()> {
        target.unobserve();
        target.shared.events.store(0, Ordering::Relaxed);
        target.shared.stores.store(0, Ordering::Relaxed);
        let origins = self.memories();
        let (next_number, space_bytes) = {
            let state = lock(&self.shared.state);
            (state.next_number, state.space_bytes)
        };
        let mut state = lock(&target.shared.state);
        state.attachments = attachments;
        state.next_number = next_number;
        state.space_bytes = space_bytes;
        state.faults = MemoryFaults::default();
        let mut images = std::mem::take(&mut state.memories);
        for origin in origins {
            let origin = lock(&origin);
            let is_kin = |image: &Arc<Mutex<MemoryState>>| {
                Arc::ptr_eq(&lock(image).template, &origin.template)
            };
            let image = match images.iter().position(is_kin) {
                Some(index) => images.swap_remove(index),
                None => Arc::new(Mutex::new(MemoryState::beside(&origin)?)),
            };
            let mut memory = lock(&image);
            memory.restore(&origin);
            add(&mut memory, &origin);
            drop(memory);
            state.memories.push(image);
        }
        Ok(())
    }

    /// Notes in `log` which undecided bytes of this world are read in `image`, which has just been
    /// made from it, and in images of that.
    pub fn watch_image(&self, image: &SimulatedWorld, log: &ReadLog) {
        let images = image.memories();
        for origin in self.memories() {
            let origin = lock(&origin);
            for image in &images {
                let mut image = lock(image);
                if image.number == origin.number {
                    image.watch(&origin, log);
                }
            }
        }
        let devices = self.devices().into_iter().zip(image.devices());
        for (device, (origin, image)) in (FIRST_ATTACHMENT..).zip(devices) {
            image.watch(&*origin, device, log);
        }
    }

    /// Ends [`SimulatedWorld::watch_image`]: memories that are opened from now on note nothing.
    pub fn unwatch(&self) {
        for memory in self.memories() {
            lock(&memory).watch = None;
        }
        for device in self.devices() {
            device.unwatch();
        }
    }

    /// The `device` of the units of each memory, and of each attached device that notes reads.
    pub(super) fn watchable_numbers(&self) -> Vec<u32> {
        let memories = self.memories();
        let memories = memories.iter().map(|memory| lock(memory).number);
        let devices = (FIRST_ATTACHMENT..).zip(self.devices());
        let devices = devices.filter(|(_, device)| device.notes_reads());
        memories.chain(devices.map(|(number, _)| number)).collect()
    }

    /// A hash of the content that is certain to survive; of a fresh image: of the image. Equal
    /// worlds have equal hashes, so a test that collects them counts distinct images.
    pub fn hash(&self) -> u64 {
        self.image_hash(&ImageChoice::default())
    }

    /// The [`SimulatedWorld::hash`] that [`SimulatedWorld::image`] would have. Cheaper than making
    /// the image, so that a test can skip one that it has seen.
    pub fn image_hash(&self, choice: &ImageChoice) -> u64 {
        let mut hash = mix(self.shared.options.seed);
        for memory in self.memories() {
            let memory = lock(&memory);
            let place = mix(mix(u64::from(memory.number)) ^ memory.bytes);
            hash = hash
                .wrapping_add(place)
                .wrapping_add(memory.image_hash(&choice.units));
        }
        for (device, attachment) in (FIRST_ATTACHMENT..).zip(self.devices()) {
            let choices = choice.units.iter().copied();
            let choices: Vec<_> = choices.filter(|unit| unit.device == device).collect();
            let content = attachment.image_hash(&choices);
            hash = hash.wrapping_add(mix(u64::from(device) ^ content));
        }
        hash
    }

    /// Places of a choice's units, for reports: memory name and offset, and the surviving part.
    pub fn describe(&self, choice: &ImageChoice) -> String {
        let mut text = choice.to_string();
        for memory in self.memories() {
            let memory = lock(&memory);
            if choice.units.iter().any(|unit| unit.device == memory.number) {
                let (number, name) = (memory.number, &memory.name);
                text.extend([format!(
                    "; {number} = {name}, by lines of {LINE_BYTES} bytes"
                )]);
            }
        }
        text
    }

    /// Steps so far: stores, flushes, fences, syncs, marks. Starts at 0 in an image.
    pub fn events(&self) -> u64 {
        self.shared.events.load(Ordering::Relaxed)
    }

    /// Stores to durable memories and writes to attached devices so far. Starts at 0 in an image: a
    /// recovery with nothing to do leaves 0.
    pub fn stores(&self) -> u64 {
        self.shared.stores.load(Ordering::Relaxed)
    }

    /// Makes every flush, fence and sync at the site do nothing, in this world and its images; a
    /// streaming store there becomes an ordinary one that nobody flushes.
    pub fn disable(&self, site: &str) {
        lock(&self.shared.sites).set_disabled(site, Some(Disabled::Always));
    }

    /// As [`SimulatedWorld::disable`], for one execution only. Executions are numbered from 0 for
    /// each kind of step, those in images included.
    pub fn disable_nth(&self, site: &str, nth: u64) {
        lock(&self.shared.sites).set_disabled(site, Some(Disabled::Nth(nth)));
    }

    /// Takes [`SimulatedWorld::disable`] back.
    pub fn enable(&self, site: &str) {
        lock(&self.shared.sites).set_disabled(site, None);
    }

    /// All sites that ran in this world and its images.
    pub fn sites(&self) -> Vec<SiteReport> {
        lock(&self.shared.sites).reports()
    }

    /// Counts one execution of a site and says whether it takes place. `useful` says whether it had
    /// anything to do.
    pub fn execute(&self, site: &'static Site, kind: SiteKind, useful: bool) -> bool {
        self.shared.events.fetch_add(1, Ordering::Relaxed);
        lock(&self.shared.sites).execute(site, kind, useful)
    }

    /// Limits the sum of the lengths of all durable memories, as a full filesystem does; `None`
    /// lifts the limit.
    pub fn limit_space(&self, bytes: Option<u64>) {
        lock(&self.shared.state).space_bytes = bytes;
    }

    /// Lets a later call to a memory fail. Faults stay with this world; images have none.
    pub fn inject(&self, fault: MemoryFault) {
        lock(&self.shared.state).faults.inject(fault);
    }

    /// Takes all faults of memories back.
    pub fn heal(&self) {
        lock(&self.shared.state).faults.clear();
    }

    /// Calls of a kind to all memories so far: the range over which a test sweeps a fault.
    pub fn memory_calls(&self, call: MemoryCall) -> u64 {
        lock(&self.shared.state).faults.calls(call)
    }

    /// Calls to memories that an injected fault let fail.
    pub fn memory_strikes(&self) -> u64 {
        lock(&self.shared.state).faults.strikes()
    }

    /// Counts a call to a memory; the error where a fault strikes.
    pub(super) fn strike(&self, call: MemoryCall, wanted_bytes: u64) -> Result<()> {
        lock(&self.shared.state).faults.strike(call, wanted_bytes)
    }

    /// The bytes of a memory that are certain to survive, for example to start other worlds from a
    /// used device. `None` if there is no memory of that name.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let memory = self.find(name)?;
        let memory = lock(&memory);
        let lines = 0..(memory.bytes / LINE_BYTES) as usize;
        Some(lines.flat_map(|line| memory.durable.line(line)).collect())
    }

    /// Names and lengths of the durable memories, in the order in which they were made.
    pub fn memory_lengths(&self) -> Vec<(String, u64)> {
        let memories = self.memories();
        let mut all: Vec<_> = memories.iter().map(|memory| lock(memory)).collect();
        all.sort_by_key(|memory| memory.number);
        all.iter()
            .map(|memory| (memory.name.clone(), memory.bytes))
            .collect()
    }

    /// Flips the bits of `mask` in one byte of a closed memory, as a decaying medium does. Fails if
    /// the memory does not exist, is open or ends before.
    pub fn damage(&self, name: &str, offset: u64, mask: u8) -> Result<()> {
        let unusable = || PmemError::Unsupported(format!("cannot damage {name} at {offset}"));
        let memory = self.find(name).ok_or_else(unusable)?;
        let mut memory = lock(&memory);
        if memory.handles > 0 || offset >= memory.bytes {
            return Err(unusable());
        }
        memory.flip(offset, mask);
        Ok(())
    }

    /// Adds a device.
    pub fn attach(&self, attachment: Arc<dyn Attachment>) {
        lock(&self.shared.state).attachments.push(attachment);
    }

    /// The attached devices of type `T`, in the order in which they came.
    pub fn attachments<T: Attachment>(&self) -> Vec<Arc<T>> {
        let devices = self.devices().into_iter();
        let downcast = |device: Arc<dyn Attachment>| {
            let any: Arc<dyn Any + Send + Sync> = device;
            any.downcast::<T>().ok()
        };
        devices.filter_map(downcast).collect()
    }

    /// The options that the world was made with.
    pub fn options(&self) -> &WorldOptions {
        &self.shared.options
    }

    pub(super) fn domain(&self) -> Domain {
        match self.shared.options.profile {
            Profile::Default => Domain::Flush,
            Profile::FlushFree => Domain::FlushFree,
        }
    }

    fn memories(&self) -> Vec<Arc<Mutex<MemoryState>>> {
        lock(&self.shared.state).memories.clone()
    }

    fn devices(&self) -> Vec<Arc<dyn Attachment>> {
        lock(&self.shared.state).attachments.clone()
    }

    /// The memory of that name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Mutex<MemoryState>>> {
        self.memories()
            .into_iter()
            .find(|memory| lock(memory).name == name)
    }

    /// Adds a memory, open and filled, of a name that is not taken.
    pub(super) fn create(&self, name: &str, bytes: u64) -> Result<Arc<Mutex<MemoryState>>> {
        self.mark(CrashPoint::Space);
        self.strike(MemoryCall::Space, bytes)?;
        self.check_space(bytes)?;
        let options = &self.shared.options;
        let number = lock(&self.shared.state).next_number;
        let seed = options.seed ^ mix(u64::from(number));
        let template = Template::new(options.capacity_bytes, &options.content, seed)?;
        let mut memory = MemoryState::new(name, number, Arc::new(template), options.profile)?;
        extend(&mut memory, bytes)?;
        memory.open();
        let memory = Arc::new(Mutex::new(memory));
        let mut state = lock(&self.shared.state);
        state.next_number += 1;
        state.memories.push(Arc::clone(&memory));
        Ok(memory)
    }

    /// Removes a memory for good.
    pub(super) fn remove(&self, name: &str) {
        self.mark(CrashPoint::Space);
        lock(&self.shared.state)
            .memories
            .retain(|memory| lock(memory).name != name);
    }

    /// Makes a memory at least `bytes` long, filled with the content of new memory.
    pub(super) fn grow(&self, memory: &Mutex<MemoryState>, bytes: u64) -> Result<u64> {
        let before = lock(memory).bytes;
        if bytes > before {
            self.mark(CrashPoint::Space);
            self.strike(MemoryCall::Space, bytes - before)?;
            self.check_space(bytes - before)?;
            extend(&mut lock(memory), bytes)?;
        }
        Ok(lock(memory).bytes)
    }

    fn check_space(&self, wanted_bytes: u64) -> Result<()> {
        let Some(limit) = lock(&self.shared.state).space_bytes else {
            return Ok(());
        };
        let used: u64 = self
            .memories()
            .iter()
            .map(|memory| lock(memory).bytes)
            .sum();
        if used + wanted_bytes > limit {
            let limit = format!("{used} of {limit} bytes of the simulated filesystem are used");
            return Err(PmemError::OutOfSpace {
                wanted_bytes,
                limit,
            });
        }
        Ok(())
    }

    /// A zeroed region for a volatile memory.
    pub(super) fn take_region(&self) -> Result<Region> {
        let capacity = self.shared.options.volatile_capacity_bytes;
        let mut spare = lock(&SPARE_REGIONS);
        match spare
            .iter()
            .rposition(|region| region.capacity() == capacity)
        {
            Some(place) => Ok(spare.remove(place)),
            None => Region::zeroed(capacity),
        }
    }
}

/// Takes a volatile memory's region back.
pub(super) fn return_region(mut region: Region) {
    region.clear_stored();
    let mut spare = lock(&SPARE_REGIONS);
    if spare.len() < SPARE_REGIONS_MAX {
        spare.push(region);
    }
}

/// Makes a memory at least `bytes` long.
fn extend(memory: &mut MemoryState, bytes: u64) -> Result<()> {
    let end = bytes.next_multiple_of(LINE_BYTES);
    if end > memory.template.capacity() {
        return Err(PmemError::OutOfSpace {
            wanted_bytes: end - memory.bytes,
            limit: format!(
                "a simulated memory holds {} bytes",
                memory.template.capacity()
            ),
        });
    }
    memory.template.fill(end)?;
    memory.bytes = end;
    Ok(())
}
