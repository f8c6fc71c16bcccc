//! The workspace: the memory of tenants, as the host reads and writes it.
//!
//! The workspace consists of typed regions. Every tenant has its own piece of each region, except that all tenants
//! share the elements of a shared region. A [`RegionView`] is a view of one piece. It copies elements in and out. The
//! words of regions in host memory, and of all regions of a device that works there, can also be used in place. A copy that begins after the ticket of
//! a task has ended sees what the task wrote.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64};

use pelton_device::{DeviceError, Memory};
use pelton_ir::types::{Num, Type};

use crate::error::Error;
use crate::kernel::handler::OBSERVABLE;
use crate::kernel::layout::BufferKey;
use crate::kernel::{BufferId, Layout, TenantId};
use crate::session::{BufferMemories, KeptPiece};

/// A type that the elements of a region can have: `u32`, `i32`, `u64` or `f32`.
pub trait Element: Num + Copy {
    /// Returns the bits of the value as a word, whose upper half is 0 for types of 32 bits.
    fn to_word(self) -> u64;
    /// Returns the value whose bits are the low bits of a word.
    fn from_word(bits: u64) -> Self;
    /// Copies values into memory of this type, beginning at a word.
    #[doc(hidden)]
    fn upload(memory: &Memory, at: usize, values: &[Self]) -> Result<(), DeviceError>;
    /// Copies values out of memory of this type, beginning at a word.
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

/// A view of a tenant's piece of a region, through which the host reads and writes its elements.
///
/// [`Session::view`](crate::Session::view) and [`Drain::view`](crate::Drain::view) return it. A view does not keep
/// tasks from running: while tasks write the same elements, a copy may have some elements from before a write and some
/// from after it.
#[derive(Clone, Debug)]
pub struct RegionView<'s, T> {
    memory: Memory,
    name: String,
    first: usize,
    len: usize,
    /// What leads to the memory of a kept region, which may change while there is a view.
    kept: Option<KeptPiece<'s>>,
    /// The session cannot move to another device while there is a view.
    ty: PhantomData<(&'s (), T)>,
}

/// Returns a view of a tenant's piece of a region, or of its observables.
pub(crate) fn open_view<'s, T: Element>(
    memories: &BufferMemories,
    layout: &Layout,
    tenant: TenantId,
    name: &str,
) -> Result<RegionView<'s, T>, Error> {
    let piece = find_piece(layout, tenant, name)?;
    if piece.elem != T::TYPE {
        return Err(Error::RegionType { name: name.into(), holds: piece.elem });
    }
    let memory = memories.get(piece.key).ok_or_else(|| Error::UnknownRegion(name.into()))?.clone();
    let (first, len) = (piece.first, piece.len);
    Ok(RegionView { memory, name: name.into(), first, len, kept: None, ty: PhantomData })
}

/// Where a tenant's piece of a region lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PieceLocation {
    /// The buffer that the piece is part of.
    pub key: BufferKey,
    /// The type of its elements.
    pub elem: Type,
    /// The index of its first element in the buffer.
    pub first: usize,
    /// The number of its elements.
    pub len: usize,
}

/// Finds a tenant's piece of a region. The region `observable` is the tenant's observables, which LOAD_U32 and fences
/// write.
pub(crate) fn find_piece(layout: &Layout, tenant: TenantId, name: &str) -> Result<PieceLocation, Error> {
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
    Ok(PieceLocation { key, elem, first: first as usize, len: len as usize })
}

impl<'s, T: Element> RegionView<'s, T> {
    /// Returns the view with what leads to its memory, if its region is kept.
    pub(crate) fn kept_by(self, kept: Option<KeptPiece<'s>>) -> Self {
        RegionView { kept, ..self }
    }

    /// Returns how many elements the piece has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the piece has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Refuses to reach the words of a kept region in place.
    fn check_not_kept(&self) -> Result<(), Error> {
        match self.kept {
            Some(_) => Err(Error::KeptRegion(self.name.clone())),
            None => Ok(()),
        }
    }

    /// Checks that a range lies in the piece, and returns its first element in the buffer.
    fn check_range(&self, at: usize, count: usize) -> Result<usize, Error> {
        match at.checked_add(count) {
            Some(end) if end <= self.len => Ok(self.first + at),
            _ => Err(Error::RegionRange { name: self.name.clone(), at, count, len: self.len }),
        }
    }

    /// Copies `values` to the elements from element `at` on. If the region is [kept](crate::Retention), the kernel pauses for
    /// that, and a [checkpoint](crate::Session::checkpoint) is taken: once this returns, the values survive a loss.
    ///
    /// # Errors
    ///
    /// [`Error::RegionRange`] if they do not all lie in the piece, and [`Error::Device`] if the copy fails. If the region is
    /// kept, also those of [`Session::checkpoint`](crate::Session::checkpoint).
    pub fn write(&self, at: usize, values: &[T]) -> Result<(), Error> {
        let first = self.check_range(at, values.len())?;
        match &self.kept {
            Some(kept) => kept.write(|memory| Ok(T::upload(memory, first, values)?)),
            None => Ok(T::upload(&self.memory, first, values)?),
        }
    }

    /// Copies the elements from element `at` on into `values`, and allocates nothing.
    ///
    /// # Errors
    ///
    /// [`Error::RegionRange`] if they do not all lie in the piece, and [`Error::Device`] if the copy fails.
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
        match &self.kept {
            Some(kept) => Ok(T::download(&kept.memory()?, first, values)?),
            None => Ok(T::download(&self.memory, first, values)?),
        }
    }

    /// Returns a copy of `count` elements from element `at` on.
    ///
    /// # Errors
    ///
    /// [`Error::RegionRange`] if they do not all lie in the piece, and [`Error::Device`] if the copy fails.
    pub fn read(&self, at: usize, count: usize) -> Result<Vec<T>, Error> {
        // This comes first, because `count` elements are allocated next.
        self.check_range(at, count)?;
        let mut values = vec![T::from_word(0); count];
        self.read_into(at, &mut values)?;
        Ok(values)
    }

    /// Returns a copy of all elements.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the copy fails.
    pub fn read_all(&self) -> Result<Vec<T>, Error> {
        self.read(0, self.len)
    }
}

/// Access to the words in place, where the host can reach the device's memory.
impl<'s> RegionView<'s, u32> {
    /// Returns the words of the piece in place. This is possible for regions in host memory, and for all regions where the
    /// host can reach the device's memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if the host cannot, and [`Error::KeptRegion`] if the region is [kept](crate::Retention), since
    /// what is written in place would be lost with the device.
    pub fn words(&self) -> Result<&[AtomicU32], Error> {
        self.check_not_kept()?;
        let words = self.memory.words32().ok_or_else(|| Error::NotMapped(self.name.clone()))?;
        Ok(&words[self.first..self.first + self.len])
    }
}

/// Access to the words in place, where the host can reach the device's memory.
impl<'s> RegionView<'s, u64> {
    /// Returns the words of the piece in place. This is possible for regions in host memory, and for all regions where the
    /// host can reach the device's memory.
    ///
    /// # Errors
    ///
    /// [`Error::NotMapped`] if the host cannot, and [`Error::KeptRegion`] if the region is [kept](crate::Retention), since
    /// what is written in place would be lost with the device.
    pub fn words(&self) -> Result<&[AtomicU64], Error> {
        self.check_not_kept()?;
        let words = self.memory.words64().ok_or_else(|| Error::NotMapped(self.name.clone()))?;
        Ok(&words[self.first..self.first + self.len])
    }
}
