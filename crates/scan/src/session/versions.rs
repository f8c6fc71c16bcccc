//! The versions of a catalog in the table region, and which of them is current.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use pelton::Session;

use super::config::RegionPlan;
use super::image::{ImageAutomaton, RunClass, TableImage};
use super::layout::TABLES;
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
    /// Which half of the region the image lies in.
    half: usize,
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
        let half = 1 - self.current().half;
        while halves[half].strong_count() > 0 {
            std::thread::sleep(LOOK_EVERY);
        }
        let loaded = Arc::new(write_image(session, plan, catalog, half)?);
        halves[half] = Arc::downgrade(&loaded);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }
}

/// Writes the image of a catalog into a half of the table region.
fn write_image(
    session: &Session,
    plan: &RegionPlan,
    catalog: Arc<Catalog>,
    half: usize,
) -> Result<LoadedCatalog, ScanError> {
    let room = plan.sizes.tables / 2;
    let base = room * half as u32;
    let image = TableImage::new(&catalog, base)?;
    if image.words.len() > room as usize {
        return Err(ScanError::Engine(format!(
            "the catalog takes {} words of the device's memory, and the session has room for {room}; open a new engine",
            image.words.len()
        )));
    }
    let failed = |error| ScanError::Engine(format!("the catalog could not be copied to the device: {error}"));
    let view = session.view::<u32>(plan.tenant, TABLES).map_err(failed)?;
    view.write(base as usize, &image.words).map_err(failed)?;
    let TableImage { automata, run_classes, .. } = image;
    Ok(LoadedCatalog { catalog, automata, run_classes, half })
}
