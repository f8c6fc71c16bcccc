//! The payload and the reply of the task that an adapted handler runs.
//!
//! Where the two lie is worked out once, when the handler begins. In a group-wide handler, all lanes take what lane 0
//! has read, so the length of a payload may decide where lanes meet.

use pelton_ir::arena::Inst;
use pelton_ir::builder::{self, Buf, FunctionBuilder};
use pelton_ir::module::{Attr, Module, Node, Operand, elements_per_wide};
use pelton_ir::op::{Op, OpEffect, OpForm};
use pelton_ir::types::{Order, Scope, Type};

use super::AdaptRule;
use super::task::HandlerTask;
use crate::kernel::context::U32;
use crate::kernel::handler::{PAYLOAD, REPLY, Width};
use crate::kernel::import::{PAYLOAD_LEN, REPLY_LEN};
use crate::kernel::payload::TaskPlaces;
use crate::protocol::FaultCode;

/// One of the two places of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::kernel) enum PlaceKind {
    /// The payload, which the host wrote.
    Payload,
    /// The reply, which the host will read.
    Reply,
}

impl PlaceKind {
    /// The place that a buffer of a handler stands for, if it stands for one.
    pub(in crate::kernel) fn from_buffer(name: &str) -> Option<Self> {
        [(PAYLOAD, PlaceKind::Payload), (REPLY, PlaceKind::Reply)]
            .into_iter()
            .find_map(|(known, kind)| (known == name).then_some(kind))
    }
}

/// Which places of its task a handler uses.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::kernel) struct PlaceUse {
    pub payload: bool,
    pub reply: bool,
}

impl PlaceUse {
    /// Finds out which places a handler uses: those that it names as buffers, or asks for by a verb. A buffer that has
    /// the name of a place is a region where tasks have no such place.
    pub(in crate::kernel) fn of_handler(module: &Module, has: PlaceUse) -> Self {
        let buffer = |name: &str| module.buffers.iter().any(|(_, decl)| decl.name == name);
        let verb = |name: &str| module.imports().any(|func| module.functions[func].name == name);
        PlaceUse {
            payload: has.payload && (buffer(PAYLOAD) || verb(PAYLOAD_LEN)),
            reply: has.reply && (buffer(REPLY) || verb(REPLY_LEN)),
        }
    }

    /// Whether the handler uses any place.
    pub(in crate::kernel) fn any(self) -> bool {
        self.payload || self.reply
    }
}

/// What a handler knows about the places of its task. These are two numbers, from which each access works out the rest,
/// because a handler would have to keep more of them in registers.
#[derive(Clone, Copy)]
pub(super) struct HandlerPlaces<'b, 'k> {
    all: &'k TaskPlaces,
    uses: PlaceUse,
    /// The number of the task's place.
    place: U32<'b>,
    /// How many bytes the payload has.
    pub(super) payload_bytes: U32<'b>,
}

impl<'b, 'k> HandlerPlaces<'b, 'k> {
    /// Writes what comes first in a handler that uses places: finds out where they are, and sets the reply to zero.
    ///
    /// The reply of a task that takes several steps is set to zero before the first of them, and not here.
    pub(super) fn begin(task: &HandlerTask<'b, 'k>, uses: PlaceUse, resumable: bool) -> Option<Self> {
        let all = task.kernel.places.as_ref().filter(|_| uses.any())?;
        let f = task.f;
        let agreed = |value: U32<'b>| match task.width {
            Width::Lane => value,
            Width::Group => f.group_broadcast(value, 0),
        };
        let place = agreed(f.load(all.window.places.at(task.args.task)));
        let payload_bytes = match uses.payload {
            true => agreed(f.load(all.window.payload_bytes.at(task.args.task))),
            false => f.lit(0),
        };
        let places = HandlerPlaces { all, uses, place, payload_bytes };
        if !resumable {
            places.clear_reply(f, task.width);
        }
        Some(places)
    }

    /// The buffer of a place and the number of the place's first word in it, if the handler uses the place.
    fn find(&self, kind: PlaceKind) -> Option<(Buf<u32>, U32<'b>)> {
        let (uses, words, stride) = match kind {
            PlaceKind::Payload => {
                (self.uses.payload, self.all.payload_words(), self.all.sizes.payload_stride())
            }
            PlaceKind::Reply => (self.uses.reply, self.all.reply_words(), self.all.sizes.reply_stride()),
        };
        words.filter(|_| uses).map(|words| (words, self.place * stride))
    }

    /// Sets the reply to zero, so that neither the handler nor the host finds anything of an earlier task there.
    fn clear_reply(&self, f: &'b FunctionBuilder<'b>, width: Width) {
        let Some((words, reply)) = self.find(PlaceKind::Reply) else { return };
        let (first, step) = match width {
            Width::Lane => (f.lit(0), f.lit(4)),
            Width::Group => (f.lane() << 2, f.lanes() << 2),
        };
        f.range((first, f.lit(self.all.sizes.reply_stride()), step), (), |_, word, ()| {
            f.store_wide(Order::Relaxed, Scope::Group, words.at(reply + word), [f.lit(0); 4]);
        });
        if width == Width::Group {
            f.barrier();
        }
    }

    /// How many words of a place the task may use.
    pub(super) fn len(&self, f: &'b FunctionBuilder<'b>, kind: PlaceKind) -> U32<'b> {
        match kind {
            PlaceKind::Payload => (self.payload_bytes + 3) >> 2,
            PlaceKind::Reply => f.lit(self.all.sizes.reply.div_ceil(4)),
        }
    }

    /// Notes how many bytes of reply a task gives. More than its place has is fault 2, and then nothing changes.
    pub(super) fn note_reply_len(&self, task: &HandlerTask<'b, '_>, bytes: U32<'b>) {
        let f = task.f;
        let note = || {
            let fits = bytes.le(self.all.sizes.reply);
            f.when(!fits, || task.record_fault(f.lit(FaultCode::REGION.code())));
            f.when(fits, || f.store(self.all.window.reply_bytes.at(task.args.task), bytes));
        };
        match task.width {
            Width::Lane => note(),
            Width::Group => f.when(f.lane().eq(0), note),
        }
    }
}

impl<'b> AdaptRule<'b, '_, '_> {
    /// Writes an access to the payload or the reply of the task.
    pub(super) fn access_place(
        &self,
        (inst, node): (Inst, &Node),
        kind: PlaceKind,
        args: &[Operand],
    ) -> Option<Vec<Operand>> {
        let (f, op) = (self.task.f, node.op);
        let places = self.task.places?;
        if op == Op::Len {
            return Some(vec![builder::Arg::operand(places.len(f, kind))]);
        }
        let (buffer, first) = places.find(kind)?;
        let index: U32<'b> = f.value(args[0]);
        let wide = op.row().form == OpForm::Wide;
        let last = if wide { index | (elements_per_wide(Type::U32) as u32 - 1) } else { index };
        let inside = self.task.check_inside(last, places.len(f, kind));
        let mut args = args.to_vec();
        args[0] = builder::Arg::operand(f.select(inside, first + index, u32::MAX));
        let attr = match node.attr {
            Attr::Atomic(_, order, scope) => Attr::Atomic(buffer.handle(), order, scope),
            _ => Attr::Buffer(buffer.handle()),
        };
        let found = f.push_op(op, attr, args);
        Some(if op.effect() == OpEffect::Read { self.agree_on(inst, node, found) } else { found })
    }
}
