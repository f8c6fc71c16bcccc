//! A tenant's memory as the host sees it.
//!
//! Regions are typed and every tenant has its own piece, so a [`RegionView`] is a piece of one type. It is copied in and out; where
//! the device's memory is mapped its words can also be reached in place. What a task wrote is seen by a copy that begins after
//! its ticket is done.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64};

use pelton_device::{DeviceError, Memory};
use pelton_ir::types::{Num, Type};

use crate::error::Error;
use crate::kernel::handler::OBSERVABLE;
use crate::kernel::layout::BufferKey;
use crate::kernel::{BufferId, Layout, TenantId};
use crate::session::BufferMemories;

/// The types of regions, and how their values are words.
pub trait Element: Num + Copy {
    /// As the bits of a word.
    fn to_word(self) -> u64;
    /// From the bits of a word.
    fn from_word(bits: u64) -> Self;
    /// Copies values into memory that holds them, from a word on.
    #[doc(hidden)]
    fn upload(memory: &Memory, at: usize, values: &[Self]) -> Result<(), DeviceError>;
    /// Copies values out of memory that holds them, from a word on.
    #[doc(hidden)]
    fn download(memory: &Memory, at: usize, values: &mut [Self]) -> Result<(), DeviceError>;
}

macro_rules! elements {
    ($($t:ty as $word:ty: |$x:ident| $bits:expr, |$b:ident| $of:expr;)*) => {$(
        impl Element for $t {
            fn to_word(self) -> u64 {
                let $x = self;
                $bits
            }
            fn from_word($b: u64) -> Self {
                $of
            }
            fn upload(memory: &Memory, at: usize, values: &[Self]) -> Result<(), DeviceError> {
                // SAFETY: the type has the size and the alignment of its word, and its bits are a value of either.
                let words = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<$word>(), values.len()) };
                memory.upload(at, words)
            }
            fn download(memory: &Memory, at: usize, values: &mut [Self]) -> Result<(), DeviceError> {
                let (start, len) = (values.as_mut_ptr().cast::<$word>(), values.len());
                // SAFETY: as above; and `values` is not used while the words are.
                let words = unsafe { std::slice::from_raw_parts_mut(start, len) };
                memory.download(at, words)
            }
        }
        const _: () = assert!(size_of::<$t>() == size_of::<$word>() && align_of::<$t>() == align_of::<$word>());
    )*};
}

elements! {
    u32 as u32: |x| x.into(), |b| b as u32;
    i32 as u32: |x| u64::from(x as u32), |b| b as u32 as i32;
    u64 as u64: |x| x, |b| b;
    f32 as u32: |x| x.to_bits().into(), |b| f32::from_bits(b as u32);
}

/// A tenant's piece of a region.
#[derive(Clone, Debug)]
pub struct RegionView<'s, T> {
    memory: &'s Memory,
    name: String,
    first: usize,
    len: usize,
    ty: PhantomData<T>,
}

/// A tenant's piece of a region, or its observables.
pub(crate) fn open_view<'s, T: Element>(
    memories: &'s BufferMemories,
    layout: &Layout,
    tenant: TenantId,
    name: &str,
) -> Result<RegionView<'s, T>, Error> {
    let piece = find_piece(layout, tenant, name)?;
    if piece.elem != T::TYPE {
        return Err(Error::RegionType { name: name.into(), holds: piece.elem });
    }
    let memory = memories.get(piece.key).ok_or_else(|| Error::UnknownRegion(name.into()))?;
    Ok(RegionView { memory, name: name.into(), first: piece.first, len: piece.len, ty: PhantomData })
}

/// Where a tenant's piece of a region is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionPiece {
    /// The buffer that holds it.
    pub key: BufferKey,
    /// What it holds.
    pub elem: Type,
    /// Its first element there.
    pub first: usize,
    /// How many elements it has.
    pub len: usize,
}

/// Where a tenant's piece of a region is; `observable` is the piece that LOAD_U32 and fences write.
pub(crate) fn find_piece(layout: &Layout, tenant: TenantId, name: &str) -> Result<RegionPiece, Error> {
    let at = tenant as usize;
    if at >= layout.observables.len() || !layout.rings.iter().any(|ring| ring.tenant == tenant) {
        return Err(Error::UnknownTenant(tenant));
    }
    let region = layout.areas.iter().enumerate().find(|(_, area)| area.region.name == name);
    let (key, elem, (first, len)) = match region {
        Some((number, area)) => (BufferKey::Region(number), area.region.elem, area.pieces[at]),
        None if name == OBSERVABLE => {
            (BufferKey::Kernel(BufferId::Observables), Type::U32, layout.observables[at])
        }
        None => return Err(Error::UnknownRegion(name.into())),
    };
    Ok(RegionPiece { key, elem, first: first as usize, len: len as usize })
}

impl<'s, T: Element> RegionView<'s, T> {
    /// How many elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn check_range(&self, at: usize, count: usize) -> Result<usize, Error> {
        match at.checked_add(count) {
            Some(end) if end <= self.len => Ok(self.first + at),
            _ => Err(Error::RegionRange { name: self.name.clone(), at, count, len: self.len }),
        }
    }

    /// Copies elements in.
    pub fn write(&self, at: usize, values: &[T]) -> Result<(), Error> {
        let first = self.check_range(at, values.len())?;
        Ok(T::upload(self.memory, first, values)?)
    }

    /// Fills `values` with the elements from element `at` on. Nothing is allocated. [`Error::RegionRange`] if they do not all lie in the view.
    ///
    /// ```
    /// # use pelton::{Session, Spec, device};
    /// # let session = Session::launch(&device::open("cpu")?, &Spec::default())?;
    /// let view = session.view::<u32>(0, "data")?;
    /// view.write(10, &[1, 2, 3])?;
    /// let mut words = [0; 4];
    /// view.read_into(9, &mut words)?;
    /// assert_eq!(words, [0, 1, 2, 3]);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn read_into(&self, at: usize, values: &mut [T]) -> Result<(), Error> {
        let first = self.check_range(at, values.len())?;
        Ok(T::download(self.memory, first, values)?)
    }

    /// Copies elements out.
    pub fn read(&self, at: usize, count: usize) -> Result<Vec<T>, Error> {
        // Before anything is allocated.
        self.check_range(at, count)?;
        let mut values = vec![T::from_word(0); count];
        self.read_into(at, &mut values)?;
        Ok(values)
    }

    /// Copies everything out.
    pub fn read_all(&self) -> Result<Vec<T>, Error> {
        self.read(0, self.len)
    }
}

/// Words in place, where the device's memory is mapped.
impl<'s> RegionView<'s, u32> {
    /// The words themselves.
    pub fn words(&self) -> Result<&'s [AtomicU32], Error> {
        let words = self.memory.words32().ok_or_else(|| Error::NotMapped(self.name.clone()))?;
        Ok(&words[self.first..self.first + self.len])
    }
}

/// Words in place, where the device's memory is mapped.
impl<'s> RegionView<'s, u64> {
    /// The words themselves.
    pub fn words(&self) -> Result<&'s [AtomicU64], Error> {
        let words = self.memory.words64().ok_or_else(|| Error::NotMapped(self.name.clone()))?;
        Ok(&words[self.first..self.first + self.len])
    }
}
