//! The engine itself: an open session, its callers, and how a text is cut into chunks.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use pelton::device::{self, Caps, Device};
use pelton::{Session, Spec, TenantId};

use super::arena::ArenaPool;
use super::caller::{Caller, Pending, failed};
use super::config::{RegionPlan, SCAN, SessionConfig};
use super::found::FoundList;
use super::image::TableImage;
use super::versions::{CatalogVersions, LoadedCatalog};
use crate::candidate::Candidate;
use crate::catalog::Catalog;
use crate::engine::{CandidateEngine, TextArena};
use crate::error::ScanError;

/// An engine that runs the tables of a catalog as tasks of a kernel that stays on a device.
///
/// Calls from several threads overlap: while the text of one call is scanned, that of another is copied.
#[derive(Debug)]
pub struct SessionEngine {
    /// The callers that are not in use. They are dropped before the session.
    idle: Mutex<Vec<Caller>>,
    returned: Condvar,
    versions: CatalogVersions,
    session: Session,
    device: Arc<dyn Device>,
    plan: RegionPlan,
    arenas: ArenaPool,
}

/// The numbers of bytes around a chunk that are copied with it.
#[derive(Clone, Copy)]
struct Margin {
    before: usize,
    after: usize,
}

impl Margin {
    fn new(catalog: &Catalog) -> Margin {
        // A run is followed until it is long enough, from the block that it covers on.
        let runs = catalog.class_runs().iter().map(|run| run.length as usize + 16).max().unwrap_or(0);
        Margin { before: catalog.lead(), after: catalog.tail().max(runs) }
    }

    /// The most bytes that are copied in addition to a chunk, which is copied from a multiple of 16 bytes on.
    fn bytes(self) -> usize {
        self.before + 16 + self.after
    }
}

/// Decides how large the regions are for a catalog on a device.
fn plan_regions(catalog: &Catalog, device: &Caps, config: SessionConfig) -> Result<RegionPlan, ScanError> {
    let image_words = TableImage::new(catalog, 0)?.words.len() as u32;
    let outputs = catalog.factors().iter().map(|table| table.outputs.len()).sum::<usize>();
    let outputs = outputs + catalog.class_runs().len();
    Ok(RegionPlan::new(config, device, image_words, (Margin::new(catalog).bytes(), outputs)))
}

impl SessionEngine {
    /// Opens a device by name, such as `cuda`, `cpu` or `reference`, and launches a session for a catalog there.
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if there is no such device or it has too little memory.
    pub fn open(device_name: &str, catalog: Arc<Catalog>) -> Result<SessionEngine, ScanError> {
        let device = device::open(device_name).map_err(|error| ScanError::Engine(error.to_string()))?;
        SessionEngine::launch(device, catalog, SessionConfig::default())
    }

    /// Launches a session for a catalog on a device.
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if the device cannot run the session or has too little memory.
    pub fn launch(
        device: Arc<dyn Device>,
        catalog: Arc<Catalog>,
        config: SessionConfig,
    ) -> Result<SessionEngine, ScanError> {
        SessionEngine::launch_kernel(device, catalog, config, None)
    }

    /// Launches a session that scans for one tenant, while its kernel also serves other tenants. The tenant is added if
    /// the kernel does not have it.
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if the device cannot run the session or has too little memory.
    pub fn launch_beside(
        device: Arc<dyn Device>,
        catalog: Arc<Catalog>,
        config: SessionConfig,
        (spec, tenant): (Spec, TenantId),
    ) -> Result<SessionEngine, ScanError> {
        SessionEngine::launch_kernel(device, catalog, config, Some((spec, tenant)))
    }

    fn launch_kernel(
        device: Arc<dyn Device>,
        catalog: Arc<Catalog>,
        config: SessionConfig,
        beside: Option<(Spec, TenantId)>,
    ) -> Result<SessionEngine, ScanError> {
        let mut config = config;
        if let Some((spec, _)) = &beside {
            // The lanes of a group are the kernel's own affair if it says how many there are.
            config.lanes = spec.geometry.lanes.or(config.lanes).or(Some(device.caps().lanes));
        }
        let mut plan = plan_regions(&catalog, device.caps(), config)?;
        let spec = match beside {
            None => plan.spec(),
            Some((spec, tenant)) => {
                plan.tenant = tenant;
                plan.add_to(spec)
            }
        };
        let session = Session::launch(&device, &spec).map_err(failed)?;
        let op = session.opcode(SCAN).map_err(failed)?;
        let versions = CatalogVersions::new(&session, &plan, catalog)?;
        let callers = (0..plan.config.callers).map(|number| Caller::new(&session, plan, op, number));
        let idle = Mutex::new(callers.collect::<Result<Vec<_>, _>>()?);
        let (returned, arenas) = (Condvar::new(), ArenaPool::default());
        Ok(SessionEngine { idle, returned, versions, session, device, plan, arenas })
    }

    /// Returns the description of the kernel that [`launch`](Self::launch) would launch, without launching it.
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if the catalog is too large for any device.
    pub fn spec(catalog: &Catalog, device: &Caps, config: SessionConfig) -> Result<Spec, ScanError> {
        Ok(plan_regions(catalog, device, config)?.spec())
    }

    /// Returns the current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.versions.current().catalog.clone()
    }

    /// Replaces the catalog. Calls that have begun go on with the old one, and later calls use the new one. Candidates
    /// refer to branches of the catalog that was current when their call began.
    ///
    /// # Errors
    ///
    /// [`ScanError::Engine`] if the new catalog does not fit into the memory that the session has for it.
    pub fn replace(&self, catalog: Arc<Catalog>) -> Result<(), ScanError> {
        if Margin::new(&catalog).bytes() * 2 > self.plan.config.chunk_bytes as usize {
            return Err(ScanError::Engine(
                "the new catalog needs more text around a chunk than this engine copies; open a new engine"
                    .into(),
            ));
        }
        self.versions.replace(&self.session, &self.plan, catalog)
    }

    /// Returns the session, to look at its counters or to run other tasks beside scans.
    pub fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn current_version(&self) -> Arc<LoadedCatalog> {
        self.versions.current()
    }

    /// Takes a caller that is not in use, and waits until there is one.
    pub(super) fn take_caller(&self) -> CallerGuard<'_> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match idle.pop() {
                Some(caller) => return CallerGuard { engine: self, caller: Some(caller) },
                None => idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Scans a text chunk by chunk. While one chunk is scanned, the next one is copied.
    fn scan_chunks(
        &self,
        version: &LoadedCatalog,
        text: &[u8],
        own: Range<usize>,
        out: &mut FoundList<'_>,
    ) -> Result<(), ScanError> {
        let mut caller = self.take_caller();
        caller.begin_call(&self.session)?;
        let margin = Margin::new(&version.catalog);
        let step = (caller.text_bytes() - margin.bytes()) / 16 * 16;
        let mut before: Option<(usize, Pending)> = None;
        // Chunks meet between blocks, so that no block is scanned twice.
        let first = own.start / 16 * 16;
        for (number, begin) in (first..own.end).step_by(step).enumerate() {
            let (start, end) = (begin.max(own.start), own.end.min(begin + step));
            let from = start.saturating_sub(margin.before) / 16 * 16;
            let to = text.len().min(end + margin.after);
            let place = number % 2;
            caller.copy_text(&self.session, place, 0, &text[from..to])?;
            let chunk = (start - from) as u32..(end - from) as u32;
            let pending = caller.submit(version, place, (to - from) as u32, chunk)?;
            if let Some((from, pending)) = before.replace((from, pending)) {
                out.add(&caller.finish(&self.session, version, pending)?.found, from);
            }
        }
        if let Some((from, pending)) = before {
            out.add(&caller.finish(&self.session, version, pending)?.found, from);
        }
        caller.end_call();
        Ok(())
    }
}

/// A caller that is in use, which goes back when this is dropped.
pub(super) struct CallerGuard<'e> {
    engine: &'e SessionEngine,
    caller: Option<Caller>,
}

impl std::ops::Deref for CallerGuard<'_> {
    type Target = Caller;
    fn deref(&self) -> &Caller {
        self.caller.as_ref().expect("it is there until the guard is dropped")
    }
}

impl std::ops::DerefMut for CallerGuard<'_> {
    fn deref_mut(&mut self) -> &mut Caller {
        self.caller.as_mut().expect("it is there until the guard is dropped")
    }
}

impl Drop for CallerGuard<'_> {
    fn drop(&mut self) {
        let mut idle = self.engine.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.caller.take());
        self.engine.returned.notify_one();
    }
}

impl CandidateEngine for SessionEngine {
    fn describe(&self) -> String {
        let layout = self.session.layout();
        format!("session on {}, {} groups of {} lanes", self.device.caps().name, layout.groups, layout.lanes)
    }

    fn piece_len(&self) -> usize {
        // A piece comes with the bytes around it, and should be one chunk.
        self.plan.config.chunk_bytes as usize - 2 * Margin::new(&self.catalog()).bytes()
    }

    fn arena(&self, len: usize) -> Result<Box<dyn TextArena>, ScanError> {
        Ok(Box::new(self.arenas.take(&*self.device, len)?))
    }

    fn candidates(
        &self,
        arena: &dyn TextArena,
        len: usize,
        own: Range<usize>,
        out: &mut Vec<Candidate>,
    ) -> Result<(), ScanError> {
        let text = arena.bytes().get(..len).filter(|text| u32::try_from(text.len()).is_ok());
        let text = text.ok_or_else(|| ScanError::Engine(format!("the arena has fewer than {len} bytes")))?;
        if own.start > own.end || own.end > len {
            return Err(ScanError::Engine(format!(
                "the range {own:?} does not lie in a text of {len} bytes"
            )));
        }
        let version = self.current_version();
        let mut list = FoundList::new(&version.run_classes, text, own.clone(), out);
        self.scan_chunks(&version, text, own, &mut list)
    }
}
