//! Fills the regions of tenants before a run, and writes them to files after it.

use std::fmt;
use std::path::PathBuf;

use pelton::kernel::TenantId;
use pelton::kernel::handler::OBSERVABLE;
use pelton::workspace::{Element, PieceLocation, RegionView};
use pelton::{Drain, RecoveringSession, Region, RegionMemory, Session};
use pelton_filetest::hint::name_hint;
use pelton_filetest::init::{Init, InitError};
use pelton_ir::module::BufferDecl;
use pelton_ir::types::{Access, Len, Space, Type};

use super::passing::once_recovered;
use super::task::{NameOrNumber, TaskNames};
use crate::error::CliError;
use crate::exec;

/// What has views of regions.
pub(super) trait RegionViews {
    /// A view of a tenant's piece of a region.
    fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<RegionView<'_, T>, pelton::Error>;
}

/// A session or drain, which owns a workspace.
pub(super) trait WorkspaceOwner: RegionViews {
    /// The names of the regions of the workspace.
    fn region_names(&self) -> Vec<String>;
    /// The place of a tenant's piece of a region.
    fn piece(&self, tenant: TenantId, region: &str) -> Result<PieceLocation, pelton::Error>;
}

macro_rules! region_views {
    ($($name:ty)*) => {$(
        impl RegionViews for $name {
            fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<RegionView<'_, T>, pelton::Error> {
                <$name>::view(self, tenant, region)
            }
        }
    )*};
}
region_views! { Session Drain RecoveringSession<'_> }

macro_rules! workspace_owners {
    ($($name:ident)*) => {$(
        impl WorkspaceOwner for $name {
            fn region_names(&self) -> Vec<String> {
                self.layout().areas.iter().map(|area| area.region.name.clone()).collect()
            }
            fn piece(&self, tenant: TenantId, region: &str) -> Result<PieceLocation, pelton::Error> {
                $name::piece(self, tenant, region)
            }
        }
    )*};
}
workspace_owners! { Session Drain }

/// A region as the command line names it: `TENANT.REGION`, or `REGION` if there is one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RegionName {
    tenant: Option<String>,
    region: String,
}

impl fmt::Display for RegionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tenant {
            Some(tenant) => write!(f, "{tenant}.{}", self.region),
            None => f.write_str(&self.region),
        }
    }
}

impl From<&str> for RegionName {
    fn from(text: &str) -> RegionName {
        match text.rsplit_once('.') {
            Some((tenant, region)) => RegionName { tenant: Some(tenant.into()), region: region.into() },
            None => RegionName { tenant: None, region: text.into() },
        }
    }
}

/// Parses `TENANT.REGION=INIT`.
pub(super) fn parse_buffer(text: &str) -> Result<(RegionName, Init), String> {
    let (target, init) = text.split_once('=').ok_or("write TENANT.REGION=INIT, as in alice.data=zero")?;
    Ok((target.into(), init.parse().map_err(|error: InitError| error.to_string())?))
}

/// Parses `TENANT.REGION=FILE`.
pub(super) fn parse_out(text: &str) -> Result<(RegionName, PathBuf), String> {
    let (target, path) = text.split_once('=').ok_or("write TENANT.REGION=FILE, as in alice.data=data.bin")?;
    Ok((target.into(), path.into()))
}

/// A tenant's piece of a region that the command line names.
struct FoundRegion {
    tenant: TenantId,
    region: String,
    elem: Type,
    len: usize,
}

fn find_region(
    home: &impl WorkspaceOwner,
    names: &TaskNames,
    target: &RegionName,
) -> Result<FoundRegion, CliError> {
    let tenant = match &target.tenant {
        // A number is the number of a tenant, unless a tenant has it as its name.
        Some(text) => names.find_tenant(&NameOrNumber::Text(text.into())).or_else(|why| match text.parse() {
            Ok(number) => names.find_tenant(&NameOrNumber::Number(number)),
            Err(_) => Err(why),
        }),
        None => names.only_tenant().map_err(|why| format!("region `{}`: {why}", target.region)),
    };
    let tenant = tenant.map_err(CliError::Wrong)?;
    let piece = home.piece(tenant, &target.region).map_err(|error| match error {
        pelton::Error::UnknownRegion(name) => {
            let regions = home.region_names();
            let there: Vec<&str> = regions.iter().map(String::as_str).chain([OBSERVABLE]).collect();
            CliError::Unknown { kind: "region", hint: name_hint(&name, &there), name }
        }
        error => error.into(),
    })?;
    Ok(FoundRegion { tenant, region: target.region.clone(), elem: piece.elem, len: piece.len })
}

/// What a tenant's piece of a region is filled with, from its first element on.
pub(super) struct RegionFill {
    region: FoundRegion,
    /// The bits of each element.
    words: Vec<u64>,
}

impl RegionFill {
    /// Fills the region.
    pub(super) fn write_to(&self, home: &impl RegionViews) -> Result<(), pelton::Error> {
        match self.region.elem {
            Type::U64 => self.write_elements::<u64>(home),
            Type::I32 => self.write_elements::<i32>(home),
            Type::F32 => self.write_elements::<f32>(home),
            Type::U32 | Type::Bool => self.write_elements::<u32>(home),
        }
    }

    fn write_elements<T: Element>(&self, home: &impl RegionViews) -> Result<(), pelton::Error> {
        let values: Vec<T> = self.words.iter().map(|word| T::from_word(*word)).collect();
        home.view::<T>(self.region.tenant, &self.region.region)?.write(0, &values)
    }
}

/// Lets a session fill those regions again after a loss that are lost with the device. Kept regions are restored, and regions in
/// host memory stay as tasks have left them.
pub(super) fn refill_after_losses(session: &Session, mut fills: Vec<RegionFill>) {
    let spec = session.spec();
    let is_lost = |name: &str| {
        let outlives = |region: &Region| region.is_kept() || region.memory == RegionMemory::Host;
        !spec.regions.iter().any(|region| region.name == name && outlives(region))
    };
    fills.retain(|fill| is_lost(&fill.region.region));
    session.on_recovery(move |session| fills.iter().try_for_each(|fill| fill.write_to(session)));
}

/// Finds out what regions are filled with.
pub(super) fn region_fills(
    home: &impl WorkspaceOwner,
    names: &TaskNames,
    given: &[(RegionName, Init)],
) -> Result<Vec<RegionFill>, CliError> {
    let fill = |(target, init): &(RegionName, Init)| {
        let region = find_region(home, names, target)?;
        let words = fill_words(&region, init)?;
        Ok(RegionFill { region, words })
    };
    given.iter().map(fill).collect()
}

fn fill_words(found: &FoundRegion, init: &Init) -> Result<Vec<u64>, CliError> {
    let wrong = |why: &dyn fmt::Display| CliError::Wrong(format!("region `{}`: {why}", found.region));
    let mut decl = BufferDecl {
        name: found.region.clone(),
        elem: found.elem,
        len: Len::Launch,
        space: Space::Global,
        access: Access::ReadWrite,
        place: Default::default(),
    };
    // Fewer elements than the region has fill its beginning. If no number is given, all elements are filled.
    let len = match init.element_count(&decl) {
        Err(InitError::Unsized) => {
            decl.len = Len::Fixed(found.len as u64);
            found.len as u64
        }
        len => len.map_err(|error| wrong(&error))?,
    };
    if len > found.len as u64 {
        return Err(wrong(&format_args!("{len} elements are given, but the region has {}", found.len)));
    }
    let data = init.make_data(&decl).map_err(|error| wrong(&error))?;
    Ok(data.iter().map(|constant| constant.bits()).collect())
}

/// Refuses regions and files that cannot be written, so that no task runs for nothing.
pub(super) fn check_outs(
    home: &impl WorkspaceOwner,
    names: &TaskNames,
    outs: &[(RegionName, PathBuf)],
) -> Result<(), CliError> {
    for (target, path) in outs {
        find_region(home, names, target)?;
        exec::check_writable(path)?;
    }
    Ok(())
}

/// Writes regions of a session to files, once no loss is in the way.
pub(super) fn save_session_regions(
    session: &Session,
    names: &TaskNames,
    outs: &[(RegionName, PathBuf)],
) -> Result<(), CliError> {
    if !outs.is_empty() {
        once_recovered(session, || session.snapshot())?;
    }
    save_regions(session, names, outs)
}

/// Writes regions to files.
pub(super) fn save_regions(
    home: &impl WorkspaceOwner,
    names: &TaskNames,
    outs: &[(RegionName, PathBuf)],
) -> Result<(), CliError> {
    for (target, path) in outs {
        let found = find_region(home, names, target)?;
        let words = match found.elem {
            Type::U64 => read_region::<u64>(home, &found)?,
            Type::I32 => read_region::<i32>(home, &found)?,
            Type::F32 => read_region::<f32>(home, &found)?,
            Type::U32 | Type::Bool => read_region::<u32>(home, &found)?,
        };
        exec::write_words(path, found.elem, words.into_iter())?;
    }
    Ok(())
}

fn read_region<T: Element>(home: &impl WorkspaceOwner, found: &FoundRegion) -> Result<Vec<u64>, CliError> {
    Ok(home.view::<T>(found.tenant, &found.region)?.read_all()?.into_iter().map(T::to_word).collect())
}
