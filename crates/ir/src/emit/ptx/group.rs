//! What lanes do together, time, and faults.

use crate::arena::{Handle, Inst};
use crate::module::{Node, Operand};
use crate::op::Op;
use crate::types::Type;

use super::abi::{launch, record};
use super::fixed::{Fixed, given, noted};
use super::lower::{PtxLowering, WARP};
use super::write::{Predicate, PtxReg, RegKind, number};

/// Waits up to this long are not worth a sleep.
const NAP_NS: u64 = 64;

/// The longest sleep that PTX has.
const SLEEP_NS: u64 = 1_000_000;

impl PtxLowering<'_> {
    /// An op that lanes do together.
    pub(crate) fn sync(&mut self, inst: Inst, node: &Node) {
        match node.op {
            Op::Barrier => return self.barrier(inst),
            Op::GroupBroadcast => return self.group_broadcast(inst, node),
            Op::Elect => {
                let (to, sublane) = (self.result(node), self.fixed(Fixed::Sublane));
                return self.out.push_line(format_args!("setp.eq.u32 {to}, {sublane}, 0"));
            }
            Op::Ballot | Op::Any | Op::All => self.vote(node),
            Op::Shuffle | Op::Broadcast => self.shuffle(node),
            _ => self.reduce(node),
        }
        if self.leave.before(inst).alone {
            self.counted();
        }
    }

    /// Leaves if a lane of the warp has left.
    fn counted(&mut self) {
        let (mask, there, p) = (self.mask(), self.word(), self.truth());
        self.out.push_line(format_args!("vote.sync.ballot.b32 {there}, 1, {mask}"));
        self.out.push_line(format_args!("setp.ne.u32 {p}, {there}, {mask}"));
        self.out.push_line(format_args!("@{p} exit"));
    }

    /// Waits for the group; a group of one warp waits as a warp.
    pub(crate) fn meet(&mut self) {
        if !self.single() {
            return self.out.push_line(format_args!("bar.sync 0"));
        }
        let mask = self.mask();
        self.out.push_line(format_args!("bar.warp.sync {mask}"));
    }

    /// Writes a barrier. A lane that finds another one missing leaves.
    fn barrier(&mut self, inst: Inst) {
        let left = self.leave.before(inst).any;
        if !left || self.single() {
            self.meet();
            return if left {
                self.counted()
            };
        }
        let (came, p, lanes) = (self.word(), self.truth(), self.config.lanes);
        self.out.push_line(format_args!("barrier.red.popc.u32 {came}, 0, 1"));
        self.out.push_line(format_args!("setp.ne.u32 {p}, {came}, {lanes}"));
        self.out.push_line(format_args!("@{p} exit"));
    }

    /// Gives one lane's value to all lanes of the group: directly in a group of one warp, else through shared memory. Two
    /// slots are used in turn. A lane that writes a slot again has met all readers of it at the barrier of the other slot.
    fn group_broadcast(&mut self, inst: Inst, node: &Node) {
        if self.single() {
            self.shuffle(node);
            return self.barrier(inst);
        }
        let (lane, slot) = (self.fixed(Fixed::Lane), self.fixed(Fixed::Slot));
        let to = self.result(node);
        let (value, from) = (self.held(node.args[0]), self.arg(node.args[1]));
        let (mine, word) = (self.truth(), self.as_word(value));
        let ty = word.kind.words().1;
        self.out.push_line(format_args!("setp.eq.u32 {mine}, {lane}, {from}"));
        self.out.push_line(format_args!("@{mine} st.shared.{ty} [{slot}], {word}"));
        self.barrier(inst);
        let got = if to.kind == RegKind::Truth { self.word() } else { to };
        self.out.push_line(format_args!("ld.shared.{ty} {got}, [{slot}]"));
        self.out.push_line(format_args!("xor.b32 {slot}, {slot}, 8"));
        let lanes = self.config.lanes;
        self.absent(got, node.args[1], &lanes.to_string(), Some(lanes));
        self.as_truth(to, got);
    }

    /// Makes a word zero if it came from a lane that is not there.
    fn absent(&mut self, word: PtxReg, from: Operand, lanes: &str, least: Option<u32>) {
        let known = self.constant(from);
        if known.zip(least).is_some_and(|(from, least)| from < u64::from(least)) {
            return;
        }
        let (p, from) = (self.truth(), self.held(from));
        let (ty, zero) = (word.kind.words().1, if word.kind == RegKind::Float { "0f00000000" } else { "0" });
        self.out.push_line(format_args!("setp.lt.u32 {p}, {from}, {lanes}"));
        self.out.push_line(format_args!("selp.{ty} {word}, {word}, {zero}, {p}"));
    }

    /// Gives a predicate as a word, and any other value as it is.
    fn as_word(&mut self, value: PtxReg) -> PtxReg {
        if value.kind != RegKind::Truth {
            return value;
        }
        let word = self.word();
        self.out.push_line(format_args!("selp.b32 {word}, 1, 0, {value}"));
        word
    }

    /// Turns a word back into the predicate that it stands for. Any other value is there already.
    fn as_truth(&mut self, to: PtxReg, word: PtxReg) {
        if to.kind == RegKind::Truth {
            self.out.push_line(format_args!("setp.ne.u32 {to}, {word}, 0"));
        }
    }

    fn vote(&mut self, node: &Node) {
        let (to, p, mask) = (self.result(node), self.held(node.args[0]), self.mask());
        let kind = match node.op {
            Op::Ballot => "ballot.b32",
            Op::Any => "any.pred",
            _ => "all.pred",
        };
        self.out.push_line(format_args!("vote.sync.{kind} {to}, {p}, {mask}"));
    }

    fn shuffle(&mut self, node: &Node) {
        let (to, value, from) = (self.result(node), self.held(node.args[0]), self.arg(node.args[1]));
        let word = self.as_word(value);
        let got = if to.kind == RegKind::Truth { self.word() } else { to };
        self.exchange("idx", got, word, &from);
        // The first warp has the least lanes if it is the only one.
        let (lanes, least) = (self.present(), if self.whole() { WARP } else { self.config.lanes % WARP });
        self.absent(got, node.args[1], &lanes, Some(least));
        self.as_truth(to, got);
    }

    /// Reads another lane's word.
    fn exchange(&mut self, mode: &str, to: PtxReg, from: PtxReg, by: &str) {
        let mask = self.mask();
        if to.kind != RegKind::Long {
            return self.out.push_line(format_args!("shfl.sync.{mode}.b32 {to}, {from}, {by}, 31, {mask}"));
        }
        let (low, high) = (self.word(), self.word());
        self.out.push_line(format_args!("mov.b64 {{{low}, {high}}}, {from}"));
        for half in [low, high] {
            self.out.push_line(format_args!("shfl.sync.{mode}.b32 {half}, {half}, {by}, 31, {mask}"));
        }
        self.out.push_line(format_args!("mov.b64 {to}, {{{low}, {high}}}"));
    }

    fn reduce(&mut self, node: &Node) {
        let ty = self.function.operand_ty(node.args[0]);
        let (to, value, mask) = (self.result(node), self.held(node.args[0]), self.mask());
        let name = match node.op {
            Op::ReduceAdd => "add",
            Op::ReduceAnd => "and",
            Op::ReduceOr => "or",
            Op::ReduceXor => "xor",
            Op::ReduceMin => "min",
            _ => "max",
        };
        let logical = matches!(node.op, Op::ReduceAnd | Op::ReduceOr | Op::ReduceXor);
        match (ty, logical) {
            (Type::U64, true) => {
                let (low, high) = (self.word(), self.word());
                self.out.push_line(format_args!("mov.b64 {{{low}, {high}}}, {value}"));
                for half in [low, high] {
                    self.out.push_line(format_args!("redux.sync.{name}.b32 {half}, {half}, {mask}"));
                }
                self.out.push_line(format_args!("mov.b64 {to}, {{{low}, {high}}}"));
            }
            (Type::U64, false) => self.fold(to, value, &format!("{name}.u64")),
            (Type::F32, _) => self.fold(to, value, &format!("{name}.NaN.f32")),
            (_, true) => self.out.push_line(format_args!("redux.sync.{name}.b32 {to}, {value}, {mask}")),
            _ => self.out.push_line(format_args!("redux.sync.{name}.{} {to}, {value}, {mask}", number(ty))),
        }
    }

    /// Reduces by exchanging values: each lane with every other in a whole warp, else down to the first lane and from
    /// there to all.
    fn fold(&mut self, to: PtxReg, value: PtxReg, op: &str) {
        let ty = to.kind.words().1;
        let whole = self.whole();
        self.out.push_line(format_args!("mov.{ty} {to}, {value}"));
        for by in [16, 8, 4, 2, 1] {
            let other = self.out.new_reg(to.kind);
            if whole {
                self.exchange("bfly", other, to, &by.to_string());
                self.out.push_line(format_args!("{op} {to}, {to}, {other}"));
                continue;
            }
            self.exchange("down", other, to, &by.to_string());
            let (sublane, lanes) = (self.fixed(Fixed::Sublane), self.present());
            let (at, p) = (self.word(), self.truth());
            self.out.push_line(format_args!("add.u32 {at}, {sublane}, {by}"));
            self.out.push_line(format_args!("setp.lt.u32 {p}, {at}, {lanes}"));
            self.out.push_line(format_args!("@{p} {op} {to}, {to}, {other}"));
        }
        if !whole {
            self.exchange("idx", to, to, "0");
        }
    }

    /// Writes the ops that read the time, wait, wake, trap or report a fault.
    pub(crate) fn world(&mut self, inst: Inst, node: &Node) {
        match node.op {
            Op::Clock => {
                let to = self.result(node);
                self.out.push_line(format_args!("mov.u64 {to}, %globaltimer"));
            }
            Op::Backoff => self.backoff(node.args[0]),
            // A `backoff` ends by itself, and nothing can end it earlier.
            Op::Wake => {}
            Op::Trap => self.trap(inst, node.args[0]),
            _ => self.fault(inst, node.args[0]),
        }
    }

    /// A sleep takes up to twice what is asked for, so half of it is.
    fn backoff(&mut self, ns: Operand) {
        match self.constant(ns) {
            Some(ns) if ns < NAP_NS => {}
            Some(ns) => {
                let ns = (ns / 2).min(SLEEP_NS);
                self.out.push_line(format_args!("nanosleep.u32 {ns}"));
            }
            None => {
                let (ns, half, p) = (self.held(ns), self.word(), self.truth());
                self.out.push_line(format_args!("shr.u32 {half}, {ns}, 1"));
                self.out.push_line(format_args!("min.u32 {half}, {half}, {SLEEP_NS}"));
                self.out.push_line(format_args!("setp.ge.u32 {p}, {ns}, {NAP_NS}"));
                self.out.push_line(format_args!("@{p} nanosleep.u32 {half}"));
            }
        }
    }

    /// Records a trap if it is the first, tells all to leave, and leaves.
    fn trap(&mut self, inst: Inst, code: Operand) {
        let (at, old, first, code) = (self.fixed(Fixed::Record), self.word(), self.truth(), self.arg(code));
        let (trap, stop) = (noted(at, record::TRAP), noted(at, record::STOP));
        self.out.push_line(format_args!("atom.relaxed.gpu.global.cas.b32 {old}, [{trap}], 0, 1"));
        self.out.push_line(format_args!("setp.eq.u32 {first}, {old}, 0"));
        self.note(first, [record::TRAP_CODE, record::TRAP_SITE], &code, inst);
        self.out.push_line(format_args!("st.relaxed.gpu.global.u32 [{stop}], 1"));
        self.notice(Predicate::If(first));
        self.out.push_line(format_args!("exit"));
    }

    /// Counts a fault, and records it if it is the first.
    fn fault(&mut self, inst: Inst, code: Operand) {
        let (at, old, first, code) = (self.fixed(Fixed::Record), self.word(), self.truth(), self.arg(code));
        let faults = noted(at, record::FAULTS);
        self.out.push_line(format_args!("atom.relaxed.gpu.global.add.u32 {old}, [{faults}], 1"));
        self.out.push_line(format_args!("setp.eq.u32 {first}, {old}, 0"));
        self.note(first, [record::FAULT_CODE, record::FAULT_SITE], &code, inst);
        self.notice(Predicate::If(first));
    }

    /// Tells the host to look at the end record.
    pub(super) fn notice(&mut self, when: Predicate) {
        let at = self.out.new_reg(RegKind::Long);
        self.out.push_line(format_args!("ld.param.u64 {at}, [launch+{}]", given(launch::NOTICE)));
        self.out.push_line(format_args!("{when}st.relaxed.sys.global.u32 [{at}], 1"));
    }

    /// Records the code and the site of a trap or a fault, each in its word of the end record.
    fn note(&mut self, first: PtxReg, [code_word, site_word]: [usize; 2], code: &str, inst: Inst) {
        let (at, site, when) = (self.fixed(Fixed::Record), inst.index(), Predicate::If(first));
        self.out
            .push_line(format_args!("{when}st.relaxed.gpu.global.u32 [{}], {code}", noted(at, code_word)));
        self.out
            .push_line(format_args!("{when}st.relaxed.gpu.global.u32 [{}], {site}", noted(at, site_word)));
    }
}
