//! The task that an adapted handler runs: its arguments, its faults, and its tenant's pieces of the workspace.

use pelton_ir::builder::{self, FunctionBuilder, Val, Vals};
use pelton_ir::module::{Attr, Operand};
use pelton_ir::op::Op;
use pelton_ir::types::{Const, Order, Scalar, Scope, Type};

use super::place::HandlerPlaces;
use super::{ArgumentPlace, HandlerArgs};
use crate::kernel::context::{KernelContext, U32, U64};
use crate::kernel::handler::{ARGS, Width};
use crate::protocol::{FaultCode, fault, slot};

/// The task that an adapted handler runs.
#[derive(Clone, Copy)]
pub(super) struct HandlerTask<'b, 'k> {
    pub f: &'b FunctionBuilder<'b>,
    pub kernel: &'k KernelContext<'k>,
    pub args: HandlerArgs<'b>,
    pub arguments: ArgumentPlace,
    pub width: Width,
    /// The arguments of the task as lane 0 reads them, where all lanes must have the same.
    pub agreed: Option<&'k [U32<'b>; ARGS as usize]>,
    /// The payload and the reply of the task, if the handler uses them.
    pub places: Option<HandlerPlaces<'b, 'k>>,
}

/// One word of a tenant's entry in the table of pieces.
#[derive(Clone, Copy)]
pub(super) enum PieceWord {
    /// The number of the piece's first element in the region's buffer.
    First,
    /// How many elements the piece has.
    Len,
}

/// What an access to a piece does, and what it gives.
#[derive(Clone, Copy)]
pub(super) enum PieceAccess<'a> {
    /// It gives values of these types.
    Load(&'a [Type]),
    /// It gives nothing.
    Store,
    /// It changes an element of this type, and gives the value that the element had before.
    Modify(Type),
}

impl<'b> HandlerTask<'b, '_> {
    /// Records a fault of the task, unless one is recorded already.
    pub(super) fn record_fault(self, code: U32<'b>) {
        let (f, at) = (self.f, self.kernel.shared.faults.at(self.args.task));
        match self.width {
            Width::Lane => f.when(f.load(at).eq(0), || f.store(at, code)),
            Width::Group => drop(f.atomic_cas(Order::Relaxed, Scope::Group, at, 0, code)),
        }
    }

    /// The number itself if the host can read it as a fault code: one of the protocol's, or one of the handler's own.
    /// Any other number becomes [`FaultCode::ARGUMENTS`].
    pub(super) fn readable_code(self, code: U32<'b>) -> U32<'b> {
        let known = if self.kernel.trees.is_some() { fault::TABLE.len() as u32 } else { fault::PLAIN_CODES };
        let protocol = (code - 1).lt(known);
        let own = (code - fault::FIRST_USER).le(fault::MAX_CODE - fault::FIRST_USER);
        self.f.select(protocol | own, code, FaultCode::ARGUMENTS.code())
    }

    /// An argument of the task. Beyond the last argument it is 0.
    pub(super) fn argument(self, index: U32<'b>) -> U32<'b> {
        let (f, words) = (self.f, self.args.words);
        let known = index.constant().map(|c| c.bits() as u32);
        if let Some(agreed) = self.agreed {
            let at = |k: usize| index.eq(k as u32);
            return match known {
                Some(index) => agreed.get(index as usize).copied().unwrap_or_else(|| f.lit(0)),
                None => {
                    agreed.iter().enumerate().fold(f.lit(0), |rest, (k, arg)| f.select(at(k), *arg, rest))
                }
            };
        }
        let half = |at: U32<'b>, odd: U32<'b>| f.cast::<u32>(self.argument_pair(at) >> (odd << 5));
        match (self.arguments, known) {
            (_, Some(ARGS..)) => f.lit(0),
            (ArgumentPlace::Slot | ArgumentPlace::Cell, Some(index)) => {
                let word = slot::ARG + index;
                half(words + word / 2, f.lit(word % 2))
            }
            _ => {
                let word = match self.arguments {
                    ArgumentPlace::Slot | ArgumentPlace::Cell => (words << 1) + slot::ARG + index,
                    ArgumentPlace::Word => words + index,
                };
                f.select(index.lt(ARGS), half(word >> 1, word & 1), 0)
            }
        }
    }

    /// Two words of arguments, as the word of 64 bits that holds them.
    fn argument_pair(self, at: U32<'b>) -> U64<'b> {
        match self.kernel.cells().filter(|_| self.arguments == ArgumentPlace::Cell) {
            Some(cells) => self.f.load(cells.lines.at(at)),
            None => self.kernel.source.load(self.f, at),
        }
    }

    /// A word of the table of pieces, for this task's tenant and a column of the table.
    pub(super) fn piece_word(self, column: u32, word: PieceWord) -> U32<'b> {
        let columns = self.kernel.layout.areas.len() as u32 + 1;
        let tenant = self.args.tenant;
        match self.kernel.pieces {
            Some(pieces) if self.width == Width::Lane => {
                let copy = match word {
                    PieceWord::First => pieces.firsts,
                    PieceWord::Len => pieces.lens,
                };
                self.f.load(copy.at(tenant * columns + column))
            }
            // The table itself is only read, so all lanes know that they read the same.
            _ => {
                let at = tenant * (columns * 2) + (column * 2 + word as u32);
                self.f.load(self.kernel.global.regions.at(at))
            }
        }
    }

    /// First element and number of elements of the piece, if they are the same for every tenant that has a ring. In a
    /// drained batch each slot names its tenant, and a tenant that has no piece must not get the piece of the others;
    /// so there the table decides.
    fn common_piece(self, column: u32) -> Option<(u32, u32)> {
        let layout = &self.kernel.layout;
        let area = layout.areas.get(column as usize).filter(|_| !self.kernel.mode.drains())?;
        let mut pieces = layout.rings.iter().map(|ring| area.pieces[ring.tenant as usize]);
        let first = pieces.next()?;
        pieces.all(|piece| piece == first).then_some(first)
    }

    /// Whether an element lies inside a piece of that length. If it does not, the task has a fault.
    pub(super) fn check_inside(self, last: U32<'b>, len: U32<'b>) -> Val<'b, bool> {
        let inside = last.lt(len);
        self.f.when(!inside, || self.record_fault(self.f.lit(FaultCode::REGION.code())));
        inside
    }

    /// Writes an access to the tenant's piece. `emit` writes the access itself, for a place in the region's buffer. An
    /// access to several elements takes the `many` elements of the 16 bytes that hold the index; pieces start at a
    /// multiple of 16 bytes.
    pub(super) fn access_piece(
        self,
        (column, index): (u32, U32<'b>),
        many: u32,
        access: PieceAccess<'_>,
        emit: impl Fn(U32<'b>) -> Vec<Operand>,
    ) -> Vec<Operand> {
        let f = self.f;
        let last = if many > 1 { index | (many - 1) } else { index };
        let known = self.common_piece(column).filter(|(_, len)| *len >= many);
        let Some((start, len)) = known else {
            let inside = self.check_inside(last, self.piece_word(column, PieceWord::Len));
            return emit(f.select(inside, self.piece_word(column, PieceWord::First) + index, u32::MAX));
        };
        let inside = self.check_inside(last, f.lit(len));
        let place = |at: U32<'b>| if start == 0 { at } else { at + start };
        match access {
            // An element beyond the piece is read as the piece's last element, and zero is given instead of its value.
            PieceAccess::Load(types) => {
                let read = emit(place(f.min(last, len / many * many - 1)));
                let shown = |(value, ty): (&Operand, &Type)| {
                    let zero = Operand::Const(Const::zero(*ty));
                    f.push_op(Op::Select, Attr::None, vec![builder::Arg::operand(inside), *value, zero])[0]
                };
                read.iter().zip(types).map(shown).collect()
            }
            PieceAccess::Store => {
                f.when(inside, || drop(emit(place(last))));
                Vec::new()
            }
            PieceAccess::Modify(elem) => {
                let old = || emit(place(last))[0];
                let operand = match elem {
                    Type::I32 => modify_if::<i32>(f, inside, old),
                    Type::U64 => modify_if::<u64>(f, inside, old),
                    Type::F32 => modify_if::<f32>(f, inside, old),
                    _ => modify_if::<u32>(f, inside, old),
                };
                vec![operand]
            }
        }
    }
}

/// Writes a read-modify-write that runs only where its element is inside the piece, and gives the old value; it gives 0
/// elsewhere.
fn modify_if<'b, T: Scalar + Default + Into<Const>>(
    f: &'b FunctionBuilder<'b>,
    inside: Val<'b, bool>,
    old: impl Fn() -> Operand,
) -> Operand
where
    Val<'b, T>: Vals<'b>,
{
    let zero = || f.value::<T>(Operand::Const(T::default().into()));
    builder::Arg::operand(f.choose(inside, || f.value::<T>(old()), zero))
}

/// A byte of a word, numbered as `load_byte` numbers them. It is 0 if the word has no byte of that number.
pub(super) fn byte_of<'b>(f: &'b FunctionBuilder<'b>, word: U32<'b>, byte: U32<'b>) -> U32<'b> {
    f.select(byte.lt(4), (word >> (byte << 3)) & 0xff, 0)
}
