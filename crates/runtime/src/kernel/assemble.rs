//! From a `Spec` to a kernel: the one verb that can fail.

use super::placement::Placement;
use pelton_device::Caps;
use pelton_ir::arena::{Arena, Func};
use pelton_ir::builder::Builder;
use pelton_ir::limits::{MAX_BUFFERS, MAX_DEPTH, MAX_INSTS, MAX_NAME, MAX_SHARED};
use pelton_ir::module::{Attr, BufferDecl, Function, Module, Node};
use pelton_ir::op::{Op, OpEffect};
use pelton_ir::pass::{
    self,
    inline::{Inlined, inline_calls},
};
use pelton_ir::text::{ColorMode, nearest_name};
use pelton_ir::types::{Access, Len, Space, Type};
use pelton_ir::valid::{Valid, validate};

use super::adapt::HandlerCode;
use super::context::KernelContext;
use super::dispatch::{self, CheckedHandler};
use super::error::AssembleError;
use super::fence::Fences;
use super::handler::{ARG, ARGS, NamedHandler, OBSERVABLE, Width};
use super::layout::Layout;
use super::mode::Mode;
use super::spec::{Body, Io, Lifetime, Spec};
use super::tenant::{Region, Tenant};
use super::window::WindowRunner;
use super::{drain, import, live};
use crate::protocol::log::Format;

/// A kernel and where everything of it lies.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The kernel: print it, check it, run it on any device that has what it needs.
    pub module: Valid,
    /// Where everything lies.
    pub layout: Layout,
}

/// Writes the kernel that a `Spec` asks for, for a device that can do so much.
pub fn assemble(spec: &Spec, caps: &Caps) -> Result<Assembled, AssembleError> {
    axes(spec, caps)?;
    tenants(spec)?;
    regions(spec)?;
    for (id, format) in spec.formats.iter().enumerate() {
        format.parse::<Format>().map_err(|why| AssembleError::Format { id: id + 1, why: why.to_string() })?;
    }
    let libraries = import::libraries(spec)?;
    let handlers = spec.handlers.iter().map(|h| ready(spec, h, &libraries)).collect::<Result<Vec<_>, _>>()?;
    distinct(spec)?;
    fit_together(&handlers)?;
    let layout = Layout::new(spec, caps)?;
    let mut m = Builder::new();
    let fueled = handlers.iter().any(|handler| handler.code.takes_fuel());
    let kernel = KernelContext::new(&mut m, spec, layout, fueled);
    let table = dispatch::write_dispatch(&mut m, &kernel, &handlers);
    match &kernel.mode {
        Mode::Drain(mode) => {
            let fences = Fences::write(&mut m, &kernel, &mode.slots, Some(&mode.frontier));
            let run = WindowRunner { kernel: &kernel, slots: &mode.slots, table: &table, fences: &fences };
            drain::write_drain(&mut m, run, mode);
        }
        Mode::Live(rings) => live::write_live(&mut m, &kernel, rings, &table, caps),
    }
    let layout = kernel.layout.clone();
    let module = m.finish();
    fits_shared_memory(caps, &handlers, &module)?;
    let module = valid(module)?;
    let module = valid(alone(inline_calls(&module, MAX_INSTS)))?;
    Ok(Assembled { module: pass::optimize(&module), layout })
}

fn valid(module: Module) -> Result<Valid, AssembleError> {
    validate(module).map_err(|e| AssembleError::Kernel(e.report("kernel", None, ColorMode::Plain)))
}

/// The kernel without the functions that it no longer calls.
fn alone(inlined: Inlined) -> Module {
    let mut module = Module::clone(&inlined.module);
    if inlined.left.is_empty() {
        let kernels = module.kernels().map(|kernel| module.functions[kernel].clone()).collect::<Vec<_>>();
        module.functions = Arena::default();
        for kernel in kernels {
            module.functions.push(kernel);
        }
    }
    module
}

/// What is named but does not work yet, or not here.
fn axes(spec: &Spec, caps: &Caps) -> Result<(), AssembleError> {
    let refuse = |axis, value, why| Err(AssembleError::Axis { axis, value, why });
    match spec.io {
        Io::Off => {}
        Io::Polled => return refuse("io", "polled", "nothing serves requests of tasks yet"),
        Io::OnMiss => return refuse("io", "on_miss", "tasks cannot wait for data yet"),
    }
    if spec.lifetime == Lifetime::Persistent && !caps.persistent {
        return refuse(
            "lifetime",
            "persistent",
            "the device cannot keep a kernel for ever; drain batches instead",
        );
    }
    if spec.lifetime == Lifetime::Drain && spec.placement == Some(Placement::Near) {
        return refuse("placement", "near", "a drained batch lies in the host's memory");
    }
    if spec.body == Body::Fused && spec.handlers.len() != 1 {
        return refuse("body", "fused", "it runs the one handler there is, so there must be exactly one");
    }
    Ok(())
}

fn tenants(spec: &Spec) -> Result<(), AssembleError> {
    for (at, tenant) in spec.tenants.iter().enumerate() {
        let wrong = |why: String| Err(AssembleError::Tenant { id: tenant.id, why });
        if tenant.id >= Tenant::MAX_TENANTS {
            return wrong(format!("tenants are numbered below {}", Tenant::MAX_TENANTS));
        }
        if spec.tenants[..at].iter().any(|t| t.id == tenant.id || t.name == tenant.name) {
            return wrong("it is named twice".into());
        }
        if tenant.quota > Tenant::MAX_QUOTA {
            return wrong(format!("its quota is {}; it is at most {}", tenant.quota, Tenant::MAX_QUOTA));
        }
        if let Some((name, _)) = tenant.sizes.iter().find(|(n, _)| !spec.regions.iter().any(|r| r.name == *n))
        {
            return wrong(format!("it says how large {name:?} is, and there is no such region"));
        }
    }
    let observables = spec.tenants.iter().map(|t| u64::from(t.observables)).sum();
    super::layout::check_addressed("the number of observables", observables)?;
    match spec.tenants.iter().map(|t| u64::from(t.producers)).sum::<u64>() {
        0 => Err(AssembleError::Producers),
        1..=1024 => Ok(()),
        found => Err(AssembleError::Size { what: "the number of producers", found, most: 1024 }),
    }
}

fn regions(spec: &Spec) -> Result<(), AssembleError> {
    let wrong = |region: &Region, why: &str| {
        Err(AssembleError::Region { name: region.name.clone(), why: why.into() })
    };
    for (at, region) in spec.regions.iter().enumerate() {
        let named = region.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && region.name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && region.name.len() <= 32;
        if !named {
            return wrong(
                region,
                "a name is up to 32 letters, digits and _, and does not start with a digit",
            );
        }
        if [ARG, OBSERVABLE].contains(&&*region.name) {
            return wrong(region, "the name is taken");
        }
        if spec.regions[..at].iter().any(|r| r.name == region.name) {
            return wrong(region, "it is named twice");
        }
        if region.elem == Type::Bool {
            return wrong(region, "memory does not hold bool");
        }
        if region.shared && region.access != Access::Read {
            return wrong(region, "what tenants share can only be read");
        }
    }
    match spec.regions.iter().find(|r| r.name == "data") {
        Some(data) if data.elem != Type::U32 || data.access != Access::ReadWrite || data.shared => {
            wrong(data, "data holds u32, is written, and every tenant has its own")
        }
        Some(_) => Ok(()),
        None => Err(AssembleError::Region { name: "data".into(), why: "it always exists".into() }),
    }
}

/// Refuses handlers that share an opcode or a name, or take what is not theirs.
fn distinct(spec: &Spec) -> Result<(), AssembleError> {
    for (at, handler) in spec.handlers.iter().enumerate() {
        let wrong = |why: &str| Err(refused(handler, why));
        if handler.op.is_reserved() {
            return wrong("the opcode is reserved");
        }
        if handler.name.contains('.') {
            return wrong("its name has a dot, and those are for the kernel's own functions");
        }
        if spec.handlers[..at].iter().any(|h| h.op == handler.op) {
            return wrong("another handler has the opcode");
        }
        let taken = spec.handlers[..at].iter().any(|h| h.name == handler.name)
            || crate::protocol::Opcode::from_name(&handler.name).is_some()
            || RESERVED.contains(&&*handler.name);
        if taken {
            return wrong("the name is taken");
        }
    }
    Ok(())
}

/// Names of the kernel's own functions.
const RESERVED: &[&str] = &[
    "main", "dispatch", "packed", "arity", "printf", "retire", "follow", "check", "ready", "look", "pick",
    "route", "watch", "light",
];

fn refused(handler: &NamedHandler, why: impl Into<String>) -> AssembleError {
    AssembleError::Handler { name: handler.name.clone(), op: handler.op, why: why.into() }
}

/// Checks a handler.
fn ready<'s>(
    spec: &Spec,
    handler: &'s NamedHandler,
    libraries: &[Valid],
) -> Result<CheckedHandler<'s>, AssembleError> {
    let wrong = |why: String| Err(refused(handler, why));
    if let Some(why) = &handler.error {
        return wrong(why.clone());
    }
    let valid = match validate(handler.module.clone()) {
        Ok(valid) => valid,
        Err(invalid) => {
            return wrong(format!(
                "it is not valid\n{}",
                invalid.report(&handler.name, None, ColorMode::Plain)
            ));
        }
    };
    let valid = import::bind(handler, &valid, libraries)?;
    for (_, decl) in valid.buffers.iter() {
        buffer(spec, handler.width, decl)
            .map_err(|why| refused(handler, format!("buffer {:?} {why}", decl.name)))?;
    }
    let named = |m: &Module| m.functions.iter().find(|(_, f)| f.name == handler.name).map(|(at, _)| at);
    let Some(func) = named(&valid) else {
        return wrong("it has no function of that name".into());
    };
    let function = &valid.functions[func];
    if !function.params.is_empty() || function.results != [Type::U32] || valid.kernels().any(|k| k == func) {
        return wrong("its function takes nothing and gives a u32".into());
    }
    let loose = if handler.width == Width::Group { loose(&valid) } else { None };
    let agreed = handler.width == Width::Group && loose.is_none();
    let module = inline_calls(&loose.unwrap_or(valid), usize::MAX).module;
    let Some(func) = named(&module) else { return wrong("it has no function of that name".into()) };
    if module.functions[func].insts().any(|(_, node)| node.op == Op::Call) {
        return wrong(
            "its calls are nested too deep, or it is too large, for all of them to be written in place"
                .into(),
        );
    }
    fits_alone(handler, &module, func)?;
    let arity = ops(handler, &module, func)?;
    Ok(CheckedHandler {
        handler,
        code: HandlerCode { module, func, width: handler.width, fueled: true, agreed },
        arity,
    })
}

/// The most regions within regions of a handler: the kernel around it needs the rest of what the language allows.
const MOST_DEPTH: usize = MAX_DEPTH - 48;
/// The most instructions of all handlers together: a kernel has several copies of each.
const MOST_INSTS: usize = MAX_INSTS / 8;
/// The instructions that an access to memory counts for: it becomes so many when it is checked.
const ACCESS_INSTS: usize = 24;
/// The longest name of a handler, and of a shared buffer of one: the kernel's names are made of both.
const MOST_NAME: usize = MAX_NAME / 2 - 4;
/// The most shared buffers of all handlers together.
const MOST_SHARED: usize = MAX_BUFFERS / 2;

/// Refuses a handler that is too large for any kernel.
fn fits_alone(handler: &NamedHandler, module: &Valid, func: Func) -> Result<(), AssembleError> {
    let wrong = |why: String| Err(refused(handler, why));
    let function = &module.functions[func];
    let depth = nesting_depth(function, function.body);
    if depth > MOST_DEPTH {
        return wrong(format!("its regions are nested {depth} deep; a handler's may be {MOST_DEPTH} deep"));
    }
    let shared = module.buffers.iter().filter(|(_, decl)| decl.space == Space::Shared);
    let long =
        shared.map(|(_, decl)| &*decl.name).chain([&*handler.name]).find(|name| name.len() > MOST_NAME);
    match long {
        Some(name) => wrong(format!("the name {name:?} is longer than {MOST_NAME} bytes")),
        None => Ok(()),
    }
}

/// How deep regions are nested, this one included.
fn nesting_depth(function: &Function, region: pelton_ir::arena::Region) -> usize {
    let inner = function.region(region).insts.iter().flat_map(|inst| &function.inst(*inst).regions);
    1 + inner.map(|region| nesting_depth(function, *region)).max().unwrap_or(0)
}

/// Refuses handlers that are too large together.
fn fit_together(handlers: &[CheckedHandler<'_>]) -> Result<(), AssembleError> {
    let (mut insts, mut buffers) = (0, 0);
    for CheckedHandler { handler, code, .. } in handlers {
        let wrong = |what: &str, found: usize, most: usize| {
            Err(refused(
                handler,
                format!(
                    "together with the handlers before it, it has {found} {what}; all handlers of a kernel may have {most}"
                ),
            ))
        };
        let weigh = |node: &Node| if node.buffer().is_some() { ACCESS_INSTS } else { 1 };
        insts += code.module.functions[code.func].insts().map(|(_, node)| weigh(node)).sum::<usize>();
        if insts > MOST_INSTS {
            return wrong("instructions", insts, MOST_INSTS);
        }
        buffers += shared_memory(&code.module).0;
        if buffers > MOST_SHARED {
            return wrong("shared buffers", buffers, MOST_SHARED);
        }
    }
    Ok(())
}

/// Shared buffers of a module, and their bytes.
fn shared_memory(module: &Module) -> (usize, u64) {
    let bytes = |decl: &BufferDecl| match decl.len {
        Len::Fixed(len) => len.saturating_mul(u64::from(decl.elem.bits() / 8)),
        Len::Launch => 0,
    };
    let all = module.buffers.iter().filter(|(_, decl)| decl.space == Space::Shared);
    all.fold((0, 0), |(count, sum), (_, decl)| (count + 1, sum.saturating_add(bytes(decl))))
}

/// Refuses a kernel that takes more shared memory than a group has, by the handler that takes most of it.
fn fits_shared_memory(
    caps: &Caps,
    handlers: &[CheckedHandler<'_>],
    module: &Module,
) -> Result<(), AssembleError> {
    let (all, most) = (shared_memory(module).1, (caps.shared_bytes as u64).min(MAX_SHARED));
    let largest = handlers.iter().max_by_key(|ready| shared_memory(&ready.code.module).1);
    match largest {
        Some(ready) if all > most => {
            let own = shared_memory(&ready.code.module).1;
            let why = format!(
                "it takes {own} of the {all} bytes of shared memory that this kernel needs, and a group of this device has {most}"
            );
            Err(refused(ready.handler, why))
        }
        _ => Ok(()),
    }
}

/// The module with arguments and regions that each lane reads for itself, if it is valid that way too: whoever may write them changes
/// nothing but what is known of them.
fn loose(module: &Module) -> Option<Valid> {
    let mut module = module.clone();
    let global = module.buffers.iter().filter(|(_, decl)| decl.space == Space::Global);
    for buffer in global.map(|(at, _)| at).collect::<Vec<_>>() {
        module.buffers[buffer].access = Access::ReadWrite;
    }
    validate(module).ok()
}

/// Refuses buffers that are not a handler's to name.
fn buffer(spec: &Spec, width: Width, decl: &BufferDecl) -> Result<(), String> {
    match (decl.space, width) {
        (Space::Shared, _) if decl.name == ARG => return Err("holds the arguments of the task".into()),
        (Space::Shared, Width::Group) => return Ok(()),
        (Space::Shared, Width::Lane) => {
            return Err(
                "is shared by the lanes of a group, and one lane runs the handler: make it group-wide".into(),
            );
        }
        _ => {}
    }
    if decl.space == Space::Host {
        return Err("lies in host memory, which is not a handler's to reach".into());
    }
    if decl.name == ARG {
        let right =
            decl.elem == Type::U32 && decl.len == Len::Fixed(ARGS.into()) && decl.access == Access::Read;
        return if right { Ok(()) } else { Err(format!("is `[u32; {ARGS}] global read`")) };
    }
    let (elem, access) = match spec.regions.iter().find(|r| r.name == decl.name) {
        Some(region) => (region.elem, region.access),
        None if decl.name == OBSERVABLE => (Type::U32, Access::ReadWrite),
        None => {
            let known = spec.regions.iter().map(|r| &*r.name).chain([OBSERVABLE]);
            let hint = nearest_name(&decl.name, known)
                .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            return Err(format!("is no region of the workspace{hint}"));
        }
    };
    if decl.elem != elem || decl.len != Len::Launch {
        return Err(format!("is `[{elem}; ?]`: how long a region is depends on the tenant"));
    }
    if access == Access::Read && decl.access != Access::Read {
        return Err("is a region that is only read".into());
    }
    Ok(())
}

/// Refuses what a handler may not do; how many arguments it reads.
fn ops(handler: &NamedHandler, module: &Valid, func: Func) -> Result<u32, AssembleError> {
    let mut arity = 0;
    for (_, node) in module.functions[func].insts() {
        let no = |why: &str| Err(refused(handler, format!("`{}` {why}", node.op.row().name)));
        let lane = handler.width == Width::Lane;
        match node.op {
            Op::Backoff => return no("waits, and a handler never does"),
            Op::Trap if !handler.may_trap => {
                return no("ends the kernel, for every tenant; `fault` ends the task alone");
            }
            Op::AsyncLoad | Op::AsyncWait => return no("runs on no device yet"),
            Op::Group | Op::Groups => return no("says where it runs, which is not a handler's to know"),
            op if lane && op.row().effect == OpEffect::Sync => {
                return no("needs lanes that run together: make the handler group-wide");
            }
            _ => {}
        }
        let arg = node.buffer().is_some_and(|b| module.buffers[b].name == ARG);
        if arg && node.op != Op::Len {
            let known = node.args.first().and_then(|arg| arg.constant()).map(|c| c.bits() as u32 + 1);
            let wide = matches!(node.attr, Attr::Atomic(..));
            if wide {
                return no("does not read arguments; `load` does");
            }
            arity = arity.max(known.unwrap_or(ARGS).min(ARGS));
        }
        let observable = node.buffer().is_some_and(|b| module.buffers[b].name == OBSERVABLE);
        if observable && matches!(node.op, Op::LoadWide | Op::StoreWide) {
            return no("needs elements that start at 16 bytes, and a tenant's observables need not");
        }
    }
    Ok(arity)
}
