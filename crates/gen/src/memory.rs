//! Statements that touch memory, and sections, in which lanes look at each other's shared memory.

use pelton_ir::module::{Attr, wide};
use pelton_ir::op::Op;
use pelton_ir::types::{Access, Class, Len, Order, Scope, Space, Type};
use pelton_ir::valid::Level;

use crate::body::{Body, known};
use crate::scope::Given;
use crate::stock::{Role, Stock};

/// Slots that a lane has of its own in a buffer: what a wide access moves at most.
const SLOTS: u32 = 4;

/// The orders that an op may have.
fn orders(op: Op) -> &'static [Order] {
    match op {
        Op::LoadWide | Op::StoreWide => &[Order::Relaxed],
        Op::AtomicLoad => &[Order::Relaxed, Order::Acquire],
        Op::AtomicStore => &[Order::Relaxed, Order::Release],
        Op::Fence => &[Order::AcqRel, Order::Acquire, Order::Release, Order::SeqCst],
        _ => &[Order::Relaxed, Order::Acquire, Order::Release, Order::AcqRel],
    }
}

impl Body<'_, '_> {
    /// Loads from an input, or from a slot of the lane's own, or in a section from anybody's.
    pub fn load(&mut self) -> bool {
        let op = if self.make.choose.one_in(4) { Op::AtomicLoad } else { Op::Load };
        self.read(op)
    }

    /// Loads by an op.
    fn read(&mut self, op: Op) -> bool {
        let roles = match self.section {
            Some(_) => &[Role::Part, Role::Part, Role::Tally, Role::Input, Role::Own][..],
            None => &[Role::Input, Role::Own, Role::Own, Role::Part],
        };
        let role = self.make.choose.pick(roles);
        let class = if role == Role::Tally { Class::Int } else { Class::Num };
        let Some(stock) = self.stock(role, class.types()) else { return false };
        if self.access(stock) == Access::Write {
            return false;
        }
        let at = match role {
            Role::Own => Some(self.slot(stock)),
            Role::Part if self.section.is_none() => Some(self.slot(stock)),
            Role::Part if !self.make.choose.one_in(3) => Some(self.neighbour()),
            _ => self.anywhere(stock, op == Op::LoadWide),
        };
        let Some(at) = at else { return false };
        let attr = self.attr(op, stock);
        self.push(op, attr, &[at]);
        true
    }

    /// Stores to a slot of the lane's own.
    pub fn store(&mut self) -> bool {
        let Some(stock) = self.mine(Class::Num) else { return false };
        self.put(stock)
    }

    /// Stores to a slot of the lane's own in a buffer.
    fn put(&mut self, stock: Stock) -> bool {
        let op = if self.make.choose.one_in(4) { Op::AtomicStore } else { Op::Store };
        let args = [self.slot(stock), self.any(stock.elem)];
        let attr = self.attr(op, stock);
        self.push(op, attr, &args);
        true
    }

    /// Loads a slot of the lane's own, computes, and stores the result there.
    pub fn update(&mut self) -> bool {
        let Some(stock) = self.mine(Class::Num) else { return false };
        if self.access(stock) == Access::Write {
            return false;
        }
        let at = self.slot(stock);
        let old = self.plain(Op::Load, Attr::Buffer(stock.buffer), &[at]);
        let op = self.make.choose.pick(&[Op::Add, Op::Sub, Op::Mul, Op::Min]);
        let by = self.any(stock.elem);
        let new = self.plain(op, Attr::None, &[old, by]);
        self.push(Op::Store, Attr::Buffer(stock.buffer), &[at, new]);
        true
    }

    /// Changes a slot of the lane's own and looks at what was there.
    pub fn atomic(&mut self) -> bool {
        let ops = [
            Op::AtomicAdd,
            Op::AtomicSub,
            Op::AtomicAnd,
            Op::AtomicOr,
            Op::AtomicXor,
            Op::AtomicMin,
            Op::AtomicMax,
            Op::AtomicExchange,
            Op::AtomicCas,
        ];
        let op = self.make.choose.pick(&ops);
        let Some(stock) = self.mine(op.row().class.unwrap_or(Class::Num)) else { return false };
        let elem = stock.elem;
        let decl = &self.make.module.buffers[stock.buffer];
        if decl.space == Space::Host || decl.access == Access::Write {
            return false;
        }
        let mut args = vec![self.slot(stock), self.any(elem)];
        if op == Op::AtomicCas {
            args.push(self.any(elem));
        }
        let attr = self.attr(op, stock);
        self.push(op, attr, &args);
        true
    }

    /// Adds to a sum. Its old value depends on who came first, so nobody gets to see it.
    pub fn sum(&mut self) -> bool {
        let role = if self.make.choose.one_in(2) && self.section.is_none() { Role::Tally } else { Role::Sum };
        let Some(stock) = self.stock(role, Class::Int.types()) else { return false };
        let (op, elem) = (self.make.choose.pick(stock.kind), stock.elem);
        let Some(at) = self.anywhere(stock, false) else { return false };
        let args = vec![at.operand, self.any(elem).operand];
        let attr = self.attr(op, stock);
        self.inst(op, attr, args, &[elem]);
        true
    }

    /// Moves 16 bytes.
    pub fn wide(&mut self) -> bool {
        if self.make.choose.one_in(2) {
            return self.read(Op::LoadWide);
        }
        let Some(stock) = self.mine(Class::Num) else { return false };
        let mut args = vec![self.slot(stock)];
        args.extend((0..wide(stock.elem)).map(|_| self.any(stock.elem)));
        let attr = self.attr(Op::StoreWide, stock);
        self.push(Op::StoreWide, attr, &args);
        true
    }

    /// Orders what is around it.
    pub fn fence(&mut self) -> bool {
        let order = self.make.choose.pick(orders(Op::Fence));
        let scope = self.make.choose.pick(Scope::ALL);
        self.push(Op::Fence, Attr::Fence(order, scope), &[]);
        true
    }

    /// Asks how long a buffer is.
    pub fn length(&mut self) -> bool {
        if self.make.stock.is_empty() {
            return false;
        }
        let stock = self.make.choose.pick(&self.make.stock);
        self.push(Op::Len, Attr::Buffer(stock.buffer), &[]);
        true
    }

    /// Statements between two barriers, in which nobody writes shared memory and all may read it.
    pub fn section(&mut self) -> bool {
        if self.control() < Level::Group || self.section.is_some() {
            return false;
        }
        let part = self.stock(Role::Part, Class::Num.types());
        // Two in a row have nothing between them but what the first must not see of the second.
        for _ in 0..1 + self.make.choose.below(2) {
            match part {
                Some(part) if !self.make.choose.one_in(4) => self.put(part),
                _ => self.sum(),
            };
            self.push(Op::Barrier, Attr::None, &[]);
            self.look();
            self.push(Op::Barrier, Attr::None, &[]);
        }
        true
    }

    /// The inside of a section: mostly looks at what other lanes have.
    fn look(&mut self) {
        self.section = Some(self.frames.len());
        for _ in 0..1 + self.make.choose.below(4) {
            if self.make.choose.one_in(3) {
                self.statement();
            } else {
                self.load();
            }
        }
        self.section = None;
    }

    /// Stores the newest values of each type where the host finds them.
    pub fn keep(&mut self) {
        let flag = self.scope.find(Type::Bool, Level::Lane, 0);
        if let Some(flag) = flag {
            self.plain(Op::Cast, Attr::Type(Type::U32), &[flag]);
        }
        for elem in Class::Num.types() {
            for k in 0..=self.make.choose.below(SLOTS as usize) {
                let Some(value) = self.scope.find(*elem, Level::Lane, k) else { break };
                let Some(stock) = self.make.buffer(Role::Own, &[*elem]) else { break };
                let at = match k {
                    0 => self.own,
                    _ => self.plain(Op::Add, Attr::None, &[self.own, known(k as u32)]),
                };
                self.push(Op::Store, Attr::Buffer(stock.buffer), &[at, value]);
            }
        }
    }

    /// A buffer for something.
    pub fn stock(&mut self, role: Role, elems: &[Type]) -> Option<Stock> {
        self.shares |= matches!(role, Role::Part | Role::Tally);
        self.make.buffer(role, elems)
    }

    /// A buffer in which the lane has slots that it may write now.
    fn mine(&mut self, class: Class) -> Option<Stock> {
        let part = self.make.choose.one_in(3) && self.section.is_none();
        self.stock(if part { Role::Part } else { Role::Own }, class.types())
    }

    /// What may be done with a buffer.
    pub fn access(&self, stock: Stock) -> Access {
        self.make.module.buffers[stock.buffer].access
    }

    /// The attribute of an access.
    pub fn attr(&mut self, op: Op, stock: Stock) -> Attr {
        if let Op::Load | Op::Store = op {
            return Attr::Buffer(stock.buffer);
        }
        let order = self.make.choose.pick(orders(op));
        let shared = self.make.module.buffers[stock.buffer].space == Space::Shared;
        let scopes = match (shared, stock.role) {
            (true, _) => &[Scope::Group][..],
            // Groups meet in a sum, and an access at scope `group` is atomic for one of them alone.
            (_, Role::Sum) => &[Scope::Device, Scope::System],
            _ => Scope::ALL,
        };
        let scope = self.make.choose.pick(scopes);
        Attr::Atomic(stock.buffer, order, scope)
    }

    /// The index of a slot of the lane's own.
    pub fn slot(&mut self, stock: Stock) -> Given {
        let base = if stock.role == Role::Part {
            let lane = self.plain(Op::Lane, Attr::None, &[]);
            self.plain(Op::Mul, Attr::None, &[lane, known(SLOTS)])
        } else {
            self.own
        };
        match self.make.choose.below(8) {
            0..5 => base,
            5 => {
                let by = 1 + self.make.choose.below(SLOTS as usize - 1) as u32;
                self.plain(Op::Add, Attr::None, &[base, known(by)])
            }
            way => {
                let any = self.any(Type::U32);
                let by = self.plain(Op::And, Attr::None, &[any, known(SLOTS - 1)]);
                self.plain(if way == 6 { Op::Add } else { Op::Or }, Attr::None, &[base, by])
            }
        }
    }

    /// The first slot of a lane nearby.
    fn neighbour(&mut self) -> Given {
        let lane = self.plain(Op::Lane, Attr::None, &[]);
        let by = known(1 + self.make.choose.below(3) as u32);
        let op = self.make.choose.pick(&[Op::Xor, Op::Add, Op::Sub]);
        let other = self.plain(op, Attr::None, &[lane, by]);
        self.plain(Op::Mul, Attr::None, &[other, known(SLOTS)])
    }

    /// Any index, in range or not; a constant is in range, as the validator wants. None if nothing is.
    pub fn anywhere(&mut self, stock: Stock, whole: bool) -> Option<Given> {
        let at = self.number_below(Level::Lane, 63);
        let many = if whole { wide(stock.elem) as u64 } else { 1 };
        match (at.operand.constant(), self.make.module.buffers[stock.buffer].len) {
            (Some(_), Len::Fixed(len)) if len < many => None,
            (Some(c), Len::Fixed(len)) => Some(known((c.bits() % (len / many * many)) as u32)),
            _ => Some(at),
        }
    }
}
