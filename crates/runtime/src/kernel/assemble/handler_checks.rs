//! What can be wrong with a handler: its name, its function, the buffers that it names and the ops that it uses.

use pelton_ir::arena::Func;
use pelton_ir::module::{Attr, BufferDecl, Module};
use pelton_ir::op::{Op, OpEffect};
use pelton_ir::pass::inline::inline_calls;
use pelton_ir::text::{ColorMode, nearest_name};
use pelton_ir::types::{Access, Len, Space, Type};
use pelton_ir::valid::{Valid, validate};

use super::{limits, refuse_handler};
use crate::kernel::adapt::{HandlerCode, PlaceKind, PlaceUse};
use crate::kernel::builtin::provided_index;
use crate::kernel::dispatch::CheckedHandler;
use crate::kernel::error::AssembleError;
use crate::kernel::handler::{
    ARG, ARGS, FRAME, MAX_FRAME_WORDS, NamedHandler, OBSERVABLE, PAYLOAD, REPLY, Width,
};
use crate::kernel::import::{self, VerbAction};
use crate::kernel::kept;
use crate::kernel::spec::{Lifetime, Spec};
use crate::kernel::tenant::RegionMemory;
use crate::protocol::Opcode;

/// The names of the kernel's own functions, which no handler can have.
const RESERVED: &[&str] = &[
    "main", "dispatch", "packed", "arity", "printf", "retire", "follow", "check", "ready", "look", "pick",
    "route", "watch", "light",
];

/// Checks all handlers of a `Spec`: each by itself, then their names and opcodes, then their size together.
pub(super) fn check_handlers<'s>(
    spec: &'s Spec,
    libraries: &[Valid],
) -> Result<Vec<CheckedHandler<'s>>, AssembleError> {
    let check = |handler| check_handler(spec, handler, libraries);
    let handlers = spec.handlers.iter().map(check).collect::<Result<Vec<_>, _>>()?;
    check_names_and_opcodes(spec)?;
    handlers.iter().try_for_each(check_protocol_arguments)?;
    limits::check_sizes_together(&handlers)?;
    Ok(handlers)
}

/// Refuses handlers that share an opcode or a name with another handler, or with the kernel.
fn check_names_and_opcodes(spec: &Spec) -> Result<(), AssembleError> {
    for (at, handler) in spec.handlers.iter().enumerate() {
        let refuse = |why: &str| Err(refuse_handler(handler, why));
        let provided = provided_index(handler.op).is_some();
        if handler.op.is_reserved() && !provided {
            return refuse("the opcode is reserved");
        }
        if handler.name.contains('.') {
            return refuse("its name has a dot, and such names are reserved for the kernel's own functions");
        }
        if spec.handlers[..at].iter().any(|h| h.op == handler.op) {
            return refuse("another handler has the opcode");
        }
        let taken = spec.handlers[..at].iter().any(|h| h.name == handler.name)
            || Opcode::from_name(&handler.name).is_some_and(|named| !provided || named != handler.op)
            || RESERVED.contains(&&*handler.name);
        if taken {
            return refuse("the name is taken");
        }
    }
    Ok(())
}

/// Refuses a handler for an opcode of the protocol that reads more arguments than the protocol gives it.
fn check_protocol_arguments(checked: &CheckedHandler<'_>) -> Result<(), AssembleError> {
    match checked.handler.op.builtin_arity() {
        Some(most) if checked.arity > most => {
            let (op, reads) = (checked.handler.op, checked.arity);
            Err(refuse_handler(checked.handler, format!("{op} has {most} arguments, but it reads {reads}")))
        }
        _ => Ok(()),
    }
}

/// Checks one handler, binds its imports and writes its calls in place.
pub(super) fn check_handler<'s>(
    spec: &Spec,
    handler: &'s NamedHandler,
    libraries: &[Valid],
) -> Result<CheckedHandler<'s>, AssembleError> {
    let refuse = |why: String| Err(refuse_handler(handler, why));
    if let Some(why) = &handler.error {
        return refuse(why.clone());
    }
    let valid = match validate(handler.module.clone()) {
        Ok(valid) => valid,
        Err(invalid) => {
            return refuse(format!(
                "it is not valid\n{}",
                invalid.report(&handler.name, None, ColorMode::Plain)
            ));
        }
    };
    let valid = import::bind_imports(handler, &valid, libraries)?;
    check_verbs(spec, &valid).map_err(|why| refuse_handler(handler, why))?;
    for (_, decl) in valid.buffers.iter() {
        check_buffer(spec, handler.width, decl)
            .map_err(|why| refuse_handler(handler, format!("buffer {:?} {why}", decl.name)))?;
    }
    let func = handler_function(handler, &valid)?;
    let function = &valid.functions[func];
    if !function.params.is_empty() || function.results != [Type::U32] || valid.kernels().any(|k| k == func) {
        return refuse("its function must be one that takes nothing and gives a u32".into());
    }
    let per_lane = if handler.width == Width::Group { with_regions_per_lane(&valid) } else { None };
    let agreed = handler.width == Width::Group && per_lane.is_none();
    let module = inline_calls(&per_lane.unwrap_or(valid), usize::MAX).module;
    let func = handler_function(handler, &module)?;
    let callees = || {
        module.functions[func].insts().filter_map(|(_, node)| match node.attr {
            Attr::Call(callee) => Some(&module.functions[callee]),
            _ => None,
        })
    };
    if callees().any(|callee| !callee.is_import()) {
        let why = "its calls are nested too deep, or it is too large, for all of them to be written in place";
        return refuse(why.into());
    }
    limits::check_size_alone(handler, &module, func)?;
    let has = PlaceUse { payload: spec.payload > 0, reply: spec.reply > 0 };
    let places = PlaceUse::of_handler(&module, has);
    let arity = check_ops(handler, &module, func, places)?;
    check_host_regions(spec, &module, func).map_err(|why| refuse_handler(handler, why))?;
    let actions: Vec<VerbAction> = callees().filter_map(|verb| import::verb_action(&verb.name)).collect();
    let resumable = actions.iter().any(|action| action.needs_cell());
    kept::check_writer(spec, handler, (&module, func), &actions)
        .map_err(|why| refuse_handler(handler, why))?;
    let sees_faults = actions.contains(&VerbAction::ChildFaults);
    let frame_words =
        check_steps(spec, resumable, &actions, &module).map_err(|why| refuse_handler(handler, why))?;
    let width = handler.width;
    let has_children = actions.iter().any(|action| action.concerns_children());
    let fueled = true;
    let code =
        HandlerCode { module, func, width, fueled, resumable, sees_faults, frame_words, agreed, places };
    Ok(CheckedHandler { handler, code, arity, has_children })
}

/// Refuses steps where nothing runs them, and a frame that is of no use. Gives the number of words of the frame.
fn check_steps(spec: &Spec, resumable: bool, actions: &[VerbAction], module: &Module) -> Result<u32, String> {
    if spec.lifetime == Lifetime::Drain && actions.contains(&VerbAction::Park) {
        return Err("it calls `park`, and nothing can resume a task of a drained batch".into());
    }
    for action in actions.iter().filter(|action| action.concerns_children() || action.concerns_events()) {
        let verb = import::verb_name(*action);
        if spec.lifetime == Lifetime::Drain {
            return Err(format!(
                "it calls `{verb}`, and tasks of a drained batch have nothing to do with others"
            ));
        }
        if spec.events == 0 && action.concerns_events() {
            return Err(format!(
                "it calls `{verb}`, and tenants of this kernel have no events (`Spec::events`)"
            ));
        }
    }
    let frame = module.buffers.iter().find(|(_, decl)| decl.name == FRAME).map(|(_, decl)| decl.len);
    match frame {
        Some(_) if !resumable => {
            Err("it has a frame, but its tasks take one step only, because it never calls `yield_now` or another verb that lets it go on"
                .into())
        }
        Some(Len::Fixed(words)) => Ok(words as u32),
        _ => Ok(0),
    }
}

/// The function of a handler: the one that has the handler's name.
fn handler_function(handler: &NamedHandler, module: &Module) -> Result<Func, AssembleError> {
    let found = module.functions.iter().find(|(_, function)| function.name == handler.name);
    let missing = || {
        let have: Vec<String> =
            module.functions.iter().map(|(_, function)| format!("{:?}", function.name)).collect();
        let have = if have.is_empty() { "none".into() } else { have.join(", ") };
        refuse_handler(handler, format!("it has no function of that name; its functions are: {have}"))
    };
    found.map(|(at, _)| at).ok_or_else(missing)
}

/// The module as one in which each lane reads arguments and regions for itself, if the module is valid that way too. To
/// say that regions may be written changes nothing but what the validator knows: values of such regions may then differ
/// from lane to lane.
fn with_regions_per_lane(module: &Module) -> Option<Valid> {
    let mut module = module.clone();
    let global = module.buffers.iter().filter(|(_, decl)| decl.space == Space::Global);
    for buffer in global.map(|(at, _)| at).collect::<Vec<_>>() {
        module.buffers[buffer].access = Access::ReadWrite;
    }
    validate(module).ok()
}

/// Refuses a buffer that a handler of this width cannot have, or that is not in the workspace.
fn check_buffer(spec: &Spec, width: Width, decl: &BufferDecl) -> Result<(), String> {
    match (decl.space, width) {
        (Space::Shared, _) if decl.name == ARG => return Err("holds the arguments of the task".into()),
        (Space::Shared, Width::Group) => return Ok(()),
        (Space::Shared, Width::Lane) => {
            let why = "is shared by the lanes of a group, but one lane runs the handler; make it group-wide";
            return Err(why.into());
        }
        _ => {}
    }
    if decl.space == Space::Host {
        return Err("lies in host memory, which handlers cannot reach".into());
    }
    if decl.name == ARG {
        let right =
            decl.elem == Type::U32 && decl.len == Len::Fixed(ARGS.into()) && decl.access == Access::Read;
        return if right { Ok(()) } else { Err(format!("must be declared as `[u32; {ARGS}] global read`")) };
    }
    if decl.name == FRAME {
        let words = 1..=u64::from(MAX_FRAME_WORDS);
        let right = decl.elem == Type::U32 && matches!(decl.len, Len::Fixed(len) if words.contains(&len));
        let why = format!("must be declared as `[u32; N] global`, with 1 to {MAX_FRAME_WORDS} words");
        return if right { Ok(()) } else { Err(why) };
    }
    if let Some(kind) = PlaceKind::from_buffer(&decl.name)
        && let Some(found) = check_place(spec, kind, decl)
    {
        return found;
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
        return Err(format!("is `[{elem}; ?]`, because the length of a region depends on the tenant"));
    }
    if access == Access::Read && decl.access != Access::Read {
        return Err("is a region that is only read".into());
    }
    Ok(())
}

/// Refuses verbs for payloads or replies that tasks do not have.
fn check_verbs(spec: &Spec, module: &Valid) -> Result<(), String> {
    for func in module.imports() {
        let name = &*module.functions[func].name;
        let missing = match name {
            import::PAYLOAD_LEN if spec.payload == 0 => PAYLOAD,
            import::REPLY_LEN if spec.reply == 0 => REPLY,
            _ => continue,
        };
        return Err(format!("it imports `{name}`, and tasks of this kernel have no {missing}"));
    }
    Ok(())
}

/// Checks how a handler declares the payload or the reply. `None` if the name belongs to a region instead.
fn check_place(spec: &Spec, kind: PlaceKind, decl: &BufferDecl) -> Option<Result<(), String>> {
    let (bytes, access) = match kind {
        PlaceKind::Payload => (spec.payload, "read"),
        PlaceKind::Reply => (spec.reply, "read_write"),
    };
    if bytes == 0 {
        let region = spec.regions.iter().any(|region| region.name == decl.name);
        let why = format!("is not there: tasks of this kernel have no {}", decl.name);
        return (!region).then_some(Err(why));
    }
    let written = kind == PlaceKind::Payload && decl.access != Access::Read;
    let wrong = decl.elem != Type::U32 || decl.len != Len::Launch || written;
    Some(if wrong { Err(format!("must be declared as `[u32; ?] global {access}`")) } else { Ok(()) })
}

/// Refuses read-modify-writes of regions in host memory.
fn check_host_regions(spec: &Spec, module: &Valid, func: Func) -> Result<(), String> {
    let in_host_memory = |name: &str| {
        spec.regions.iter().any(|region| region.name == name && region.memory == RegionMemory::Host)
    };
    for (_, node) in module.functions[func].insts().filter(|(_, node)| node.op.is_read_modify_write()) {
        let buffer = node.buffer().map(|buffer| &module.buffers[buffer]);
        if let Some(decl) = buffer.filter(|decl| decl.space == Space::Global && in_host_memory(&decl.name)) {
            let (op, name) = (node.op.row().name, &decl.name);
            let why = "lies in host memory, and not every device makes that atomic against the host";
            return Err(format!("`{op}` modifies region {name:?}, which {why}"));
        }
    }
    Ok(())
}

/// Refuses ops that a handler may not use. Gives the number of arguments that the handler reads.
fn check_ops(
    handler: &NamedHandler,
    module: &Valid,
    func: Func,
    places: PlaceUse,
) -> Result<u32, AssembleError> {
    let mut arity = 0;
    for (_, node) in module.functions[func].insts() {
        let refuse = |why: &str| Err(refuse_handler(handler, format!("`{}` {why}", node.op.row().name)));
        let lane = handler.width == Width::Lane;
        match node.op {
            Op::Backoff => return refuse("waits, and a handler must not wait"),
            Op::Wake => return refuse("wakes groups, which is for the kernel to decide"),
            Op::Trap if !handler.may_trap => {
                return refuse("ends the kernel for every tenant; `fault` ends the task alone");
            }
            Op::AsyncLoad | Op::AsyncWait => return refuse("runs on no device yet"),
            Op::Group | Op::Groups => {
                return refuse("gives the group that runs the task, which handlers must not depend on");
            }
            op if lane && op.row().effect == OpEffect::Sync => {
                return refuse("needs lanes that run together; make the handler group-wide");
            }
            _ => {}
        }
        let buffer = node.buffer().map(|buffer| &*module.buffers[buffer].name);
        if buffer == Some(ARG) && node.op != Op::Len {
            if matches!(node.attr, Attr::Atomic(..)) {
                return refuse("cannot read arguments; `load` can");
            }
            let index = node.args.first().and_then(|arg| arg.constant());
            let needed = index.map_or(ARGS, |index| (index.bits() as u32).saturating_add(1));
            arity = arity.max(needed.min(ARGS));
        }
        if buffer == Some(FRAME) && matches!(node.op, Op::LoadWide | Op::StoreWide) {
            return refuse("needs neighbouring words, and those of a frame may lie apart");
        }
        let place = buffer == Some(PAYLOAD) && places.payload || buffer == Some(REPLY) && places.reply;
        if place && matches!(node.attr, Attr::Atomic(..)) && !matches!(node.op, Op::LoadWide | Op::StoreWide)
        {
            return refuse("cannot reach a payload or a reply; `load` and `store` can");
        }
        if buffer == Some(OBSERVABLE) && matches!(node.op, Op::LoadWide | Op::StoreWide) {
            return refuse("needs elements that start at a multiple of 16 bytes, and observables may not");
        }
    }
    Ok(arity)
}
