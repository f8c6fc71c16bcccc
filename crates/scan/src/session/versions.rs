//! The versions of a catalog in the table region, and which of them is current.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use pelton::Session;

use super::config::RegionPlan;
use super::image::{ImageAutomaton, RunClass, TableImage};
use super::layout::{StepHeaderWord, TABLES};
use super::step::{NO_VERSION, version_half, version_stamp};
use crate::catalog::Catalog;
use crate::error::ScanError;

/// How long a replacement sleeps between looks at whether older calls have ended.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// A catalog whose image lies in the table region.
#[derive(Debug)]
pub(super) struct LoadedCatalog {
    pub catalog: Arc<Catalog>,
    pub automata: Vec<ImageAutomaton>,
    pub run_classes: Vec<RunClass>,
    /// How many states the window of each branch has; 0 if there is none.
    pub state_counts: Vec<u32>,
    /// The number of the version, from 0 on. It says which half of the region the image lies in.
    pub number: u32,
}

/// The versions of a catalog. A call keeps the version that it uses alive.
#[derive(Debug)]
pub(super) struct CatalogVersions {
    current: RwLock<Arc<LoadedCatalog>>,
    /// The newest version in each half, for whoever wants to write there. Held while a version is replaced.
    halves: Mutex<[Weak<LoadedCatalog>; 2]>,
}

impl CatalogVersions {
    /// Writes the first version.
    pub(super) fn new(
        session: &Session,
        plan: &RegionPlan,
        catalog: Arc<Catalog>,
    ) -> Result<Self, ScanError> {
        let first = Arc::new(write_image(session, plan, catalog, 0)?);
        let halves = Mutex::new([Arc::downgrade(&first), Weak::new()]);
        Ok(CatalogVersions { current: RwLock::new(first), halves })
    }

    /// The current version.
    pub(super) fn current(&self) -> Arc<LoadedCatalog> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a new version and makes it current. Waits until no call uses the version that it overwrites.
    pub(super) fn replace(
        &self,
        session: &Session,
        plan: &RegionPlan,
        catalog: Arc<Catalog>,
    ) -> Result<(), ScanError> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.current().number.wrapping_add(1);
        let half = version_half(number) as usize;
        while halves[half].strong_count() > 0 {
            std::thread::sleep(LOOK_EVERY);
        }
        let loaded = Arc::new(write_image(session, plan, catalog, number)?);
        halves[half] = Arc::downgrade(&loaded);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }
}

/// Writes the image of a version of a catalog into its half of the table region. While it is written, the half belongs to
/// no version, so a task that has the number of an automaton of the version before finds none.
fn write_image(
    session: &Session,
    plan: &RegionPlan,
    catalog: Arc<Catalog>,
    number: u32,
) -> Result<LoadedCatalog, ScanError> {
    let room = plan.sizes.tables / 2;
    let base = room * version_half(number);
    let image = TableImage::new(&catalog, base)?;
    if image.words.len() > room as usize {
        return Err(ScanError::Engine(format!(
            "the catalog takes {} words of the device's memory, and the session has room for {room}; open a new engine",
            image.words.len()
        )));
    }
    let failed = |error| ScanError::Engine(format!("the catalog could not be copied to the device: {error}"));
    let view = session.view::<u32>(plan.tenant, TABLES).map_err(failed)?;
    let stamp = base as usize + StepHeaderWord::Stamp as usize;
    view.write(stamp, &[NO_VERSION]).map_err(failed)?;
    view.write(base as usize, &image.words).map_err(failed)?;
    view.write(stamp, &[version_stamp(number)]).map_err(failed)?;
    let TableImage { automata, run_classes, state_counts, .. } = image;
    Ok(LoadedCatalog { catalog, automata, run_classes, state_counts, number })
}
