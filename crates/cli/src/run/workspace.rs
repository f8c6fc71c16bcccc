//! Regions of tenants, filled before a run and written to files after it.

use std::path::PathBuf;

use pelton::kernel::handler::OBSERVABLE;
use pelton::kernel::{Layout, TenantId};
use pelton::workspace::{Element, Piece, View};
use pelton::{Drain, Session};
use pelton_filetest::hint::name_hint;
use pelton_filetest::init::{Init, InitError};
use pelton_ir::module::BufferDecl;
use pelton_ir::types::{Access, Len, Space, Type};

use super::task::{Name, Names};
use crate::error::Error;
use crate::exec;

/// What has a workspace.
pub trait Home {
    /// Where everything lies.
    fn layout(&self) -> &Layout;
    /// Where a tenant's piece of a region is.
    fn piece(&self, tenant: TenantId, region: &str) -> Result<Piece, pelton::Error>;
    /// A tenant's piece of a region.
    fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<View<'_, T>, pelton::Error>;
}

macro_rules! homes {
    ($($name:ident)*) => {$(
        impl Home for $name {
            fn layout(&self) -> &Layout {
                $name::layout(self)
            }
            fn piece(&self, tenant: TenantId, region: &str) -> Result<Piece, pelton::Error> {
                $name::piece(self, tenant, region)
            }
            fn view<T: Element>(&self, tenant: TenantId, region: &str) -> Result<View<'_, T>, pelton::Error> {
                $name::view(self, tenant, region)
            }
        }
    )*};
}
homes! { Session Drain }

/// A region as the command line names it: `TENANT.REGION`, or `REGION` where there is one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    tenant: Option<String>,
    region: String,
}

impl From<&str> for Target {
    fn from(text: &str) -> Target {
        match text.rsplit_once('.') {
            Some((tenant, region)) => Target { tenant: Some(tenant.into()), region: region.into() },
            None => Target { tenant: None, region: text.into() },
        }
    }
}

/// Reads `TENANT.REGION=INIT`.
pub fn buffer(text: &str) -> Result<(Target, Init), String> {
    let (target, init) = text.split_once('=').ok_or("write TENANT.REGION=INIT, as in alice.data=zero")?;
    Ok((target.into(), init.parse().map_err(|error: InitError| error.to_string())?))
}

/// Reads `TENANT.REGION=FILE`.
pub fn out(text: &str) -> Result<(Target, PathBuf), String> {
    let (target, path) = text.split_once('=').ok_or("write TENANT.REGION=FILE, as in alice.data=data.bin")?;
    Ok((target.into(), path.into()))
}

/// A region of a session that the command line names.
struct Found {
    tenant: TenantId,
    region: String,
    elem: Type,
    len: usize,
}

fn find(home: &impl Home, names: &Names, target: &Target) -> Result<Found, Error> {
    let tenant = match &target.tenant {
        // A number is that of a tenant unless one is called so.
        Some(text) => names.tenant(&Name::Text(text.into())).or_else(|why| match text.parse() {
            Ok(number) => names.tenant(&Name::Number(number)),
            Err(_) => Err(why),
        }),
        None => names.only().map_err(|why| format!("region `{}`: {why}", target.region)),
    };
    let tenant = tenant.map_err(Error::Wrong)?;
    let piece = home.piece(tenant, &target.region).map_err(|error| match error {
        pelton::Error::Region(name) => {
            let regions = home.layout().areas.iter().map(|area| area.region.name.as_str());
            let there: Vec<&str> = regions.chain([OBSERVABLE]).collect();
            Error::Unknown { kind: "region", hint: name_hint(&name, &there), name }
        }
        error => error.into(),
    })?;
    Ok(Found { tenant, region: target.region.clone(), elem: piece.elem, len: piece.len })
}

/// Fills regions from their first element on.
pub fn fill(home: &impl Home, names: &Names, given: &[(Target, Init)]) -> Result<(), Error> {
    for (target, init) in given {
        let found = find(home, names, target)?;
        match found.elem {
            Type::U64 => put::<u64>(home, &found, init)?,
            Type::I32 => put::<i32>(home, &found, init)?,
            Type::F32 => put::<f32>(home, &found, init)?,
            Type::U32 | Type::Bool => put::<u32>(home, &found, init)?,
        }
    }
    Ok(())
}

fn put<T: Element>(home: &impl Home, found: &Found, init: &Init) -> Result<(), Error> {
    let wrong = |why: &dyn std::fmt::Display| Error::Wrong(format!("region `{}`: {why}", found.region));
    let mut decl = BufferDecl {
        name: found.region.clone(),
        elem: found.elem,
        len: Len::Launch,
        space: Space::Global,
        access: Access::ReadWrite,
        place: Default::default(),
    };
    // Fewer elements than the region has are its first ones; where nothing says how many, it is all.
    let len = match init.element_count(&decl) {
        Err(InitError::Unsized) => {
            decl.len = Len::Fixed(found.len as u64);
            found.len as u64
        }
        len => len.map_err(|error| wrong(&error))?,
    };
    if len > found.len as u64 {
        return Err(wrong(&format_args!("{len} elements are given, and it has {}", found.len)));
    }
    let data = init.make_data(&decl).map_err(|error| wrong(&error))?;
    let values: Vec<T> = data.iter().map(|c| T::of(c.bits())).collect();
    Ok(home.view::<T>(found.tenant, &found.region)?.write(0, &values)?)
}

/// Refuses what cannot be written before anything runs, not after.
pub fn check(home: &impl Home, names: &Names, outs: &[(Target, PathBuf)]) -> Result<(), Error> {
    for (target, path) in outs {
        find(home, names, target)?;
        exec::writable(path)?;
    }
    Ok(())
}

/// Writes regions to files.
pub fn save(home: &impl Home, names: &Names, outs: &[(Target, PathBuf)]) -> Result<(), Error> {
    for (target, path) in outs {
        let found = find(home, names, target)?;
        let words = match found.elem {
            Type::U64 => get::<u64>(home, &found)?,
            Type::I32 => get::<i32>(home, &found)?,
            Type::F32 => get::<f32>(home, &found)?,
            Type::U32 | Type::Bool => get::<u32>(home, &found)?,
        };
        exec::save(path, found.elem, words.into_iter())?;
    }
    Ok(())
}

fn get<T: Element>(home: &impl Home, found: &Found) -> Result<Vec<u64>, Error> {
    Ok(home.view::<T>(found.tenant, &found.region)?.all()?.into_iter().map(T::bits).collect())
}
