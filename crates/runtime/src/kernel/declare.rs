//! Declares the buffers of a kernel, and lists those that the host binds.

use pelton_device::MemoryKind;
use pelton_device::mapped::WordWidth;
use pelton_ir::arena::Buffer;
use pelton_ir::builder::{Buf, Builder};
use pelton_ir::module::{BufferDecl, TextPlace};
use pelton_ir::types::{Access, Len, Num, Space};

use super::buffers::{BufferId, KernelPlan, WrittenBy};
use super::layout::{BufferBinding, BufferKey, RegionArea};
use super::spec::Recovery;
use super::tenant::RegionMemory;

/// Declares buffers in a module and keeps a list of those that the host binds.
pub(super) struct Declarer<'m> {
    pub module: &'m mut Builder,
    pub plan: KernelPlan<'m>,
    pub bound: Vec<BufferBinding>,
}

impl Declarer<'_> {
    /// Declares a buffer as its row in the table says. `T` is the element type that the row has.
    pub(super) fn declare<T: Num>(&mut self, id: BufferId) -> Buf<T> {
        let row = id.row();
        debug_assert_eq!(row.elem, T::TYPE);
        let name = row.name(self.plan.layout);
        let len = (row.len)(self.plan).max(1);
        let kind = row.memory.kind(self.plan);
        let space = match kind {
            None => Space::Shared,
            Some(MemoryKind::Device) => Space::Global,
            Some(MemoryKind::Host | MemoryKind::Near) => Space::Host,
        };
        let access = match row.written {
            WrittenBy::Host | WrittenBy::Nobody => Access::Read,
            WrittenBy::Kernel => Access::ReadWrite,
            WrittenBy::KernelsForHost if self.plan.spec.recovery == Recovery::On => Access::ReadWrite,
            WrittenBy::KernelForHost | WrittenBy::KernelsForHost => Access::Write,
        };
        if let Some(kind) = kind {
            let width = WordWidth::of(row.elem);
            let key = BufferKey::Kernel(id);
            self.bound.push(BufferBinding { key, name: name.into(), kind, width, len: len as usize });
        }
        // The length is a constant, so an index that is masked to it needs no check.
        self.module.buffer(name, Len::Fixed(len.into()), space, access)
    }

    /// Declares the buffer of a region of the workspace.
    pub(super) fn declare_region(&mut self, number: usize, area: &RegionArea) -> Buffer {
        let (name, elem, len) = (area.buffer_name(), area.region.elem, area.total);
        let (kind, space) = match area.region.memory {
            RegionMemory::Device => (MemoryKind::Device, Space::Global),
            RegionMemory::Host => (MemoryKind::Host, Space::Host),
        };
        self.bound.push(BufferBinding {
            key: BufferKey::Region(number),
            name: name.clone(),
            kind,
            width: WordWidth::of(elem),
            len: len as usize,
        });
        // The host may write a region while the kernel runs, even one that handlers only read. The kernel therefore
        // never declares it as read-only: a GPU would then read it through a cache that is not kept up to date.
        self.module.declare(BufferDecl {
            name,
            elem,
            len: Len::Fixed(len.into()),
            space,
            access: Access::ReadWrite,
            place: TextPlace::default(),
        })
    }
}
