//! What handlers can import: functions of the `Spec`'s libraries, and verbs of the runtime.
//!
//! The imports of a handler are bound before anything else of it is checked. From then on, a function that comes from a
//! library is the handler's own code: it is written in place, its accesses reach the tenant's memory only, its loops
//! take fuel, and it may do no more than the handler may. A library reaches only buffers that the handler declares, and
//! names in a library are never names in the kernel.

use pelton_ir::link::{self, LinkError, MissingImport, Signature};
use pelton_ir::module::{FunctionKind, ImportFlow};
use pelton_ir::text::{ColorMode, nearest_name};
use pelton_ir::types::Type;
use pelton_ir::valid::{Valid, validate};

use super::error::AssembleError;
use super::handler::{ARGS, NamedHandler, Width};
use super::spec::Spec;

/// Something that handlers can ask of the runtime, by importing it as a function.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// The name of the import.
    pub name: &'static str,
    /// The types of its parameters.
    pub params: &'static [Type],
    /// How many more parameters of type `u32` an import may have.
    pub more_params: usize,
    /// The types of its results.
    pub results: &'static [Type],
    /// Whether the verb acts once per group. If it does, handlers must import it as `uniform`.
    pub flow: ImportFlow,
    /// Which handlers may import it.
    pub widths: &'static [Width],
    /// What a call of it does.
    pub action: VerbAction,
}

/// What a call of a verb does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VerbAction {
    /// The task does not end with this step. It runs again after others of its level.
    YieldNow,
    /// The task does not end with this step. It runs again at the level that the argument names, where 0 is the most
    /// urgent.
    Requeue,
    /// The task does not end with this step. It runs again after the host has resumed it.
    Park,
    /// Gives the length of the task's payload in bytes.
    PayloadLen,
    /// Says the length of the task's reply in bytes.
    ReplyLen,
    /// Reserves room for as many children as the argument says. Gives 1 if there is room for all of them, and 0 otherwise.
    ReserveChildren,
    /// Gives the opcode of the task.
    OwnOpcode,
    /// Makes a child in the room that was reserved. The arguments are its opcode, its level, the word of the frame for its
    /// result, and its own arguments.
    Spawn,
    /// The task does not end with this step. It runs again after all of its children have ended.
    WaitChildren,
    /// Gives how many children of the task have ended with a fault.
    ChildFaults,
    /// Signals an event: the arguments are its number and how often.
    Signal,
    /// The task does not end with this step. It runs again after the event that the first argument names was signalled as
    /// often as the second says.
    WaitEvent,
}

impl VerbAction {
    /// Whether the verb makes its handler resumable: because it is an outcome of a step, or because only a task in a cell
    /// can have children.
    pub const fn needs_cell(self) -> bool {
        use VerbAction::{Park, Requeue, WaitEvent, YieldNow};
        matches!(self, YieldNow | Requeue | Park | WaitEvent) || self.concerns_children()
    }

    /// Whether the verb is about children of the task.
    pub const fn concerns_children(self) -> bool {
        use VerbAction::{ChildFaults, OwnOpcode, ReserveChildren, Spawn, WaitChildren};
        matches!(self, ReserveChildren | OwnOpcode | Spawn | WaitChildren | ChildFaults)
    }

    /// Whether the verb is about events.
    pub const fn concerns_events(self) -> bool {
        matches!(self, VerbAction::Signal | VerbAction::WaitEvent)
    }
}

/// A verb of lane-wide handlers that gives no results.
const fn lane_verb(name: &'static str, params: &'static [Type], action: VerbAction) -> Verb {
    Verb { name, params, more_params: 0, results: &[], flow: ImportFlow::Any, widths: &[Width::Lane], action }
}

/// A verb of group-wide handlers that gives no results and acts once per group.
const fn group_verb(name: &'static str, params: &'static [Type], action: VerbAction) -> Verb {
    Verb {
        name,
        params,
        more_params: 0,
        results: &[],
        flow: ImportFlow::Uniform,
        widths: &[Width::Group],
        action,
    }
}

/// The name of the verb that gives way to other tasks.
pub(super) const YIELD_NOW: &str = "yield_now";
/// The name of the verb that changes the level of a task.
pub(super) const REQUEUE: &str = "requeue";
/// The name of the verb that puts a task aside until the host resumes it.
pub(super) const PARK: &str = "park";
/// The name of the verb that gives the length of the task's payload in bytes.
pub(super) const PAYLOAD_LEN: &str = "payload_len";
/// The name of the verb that says the length of the task's reply in bytes.
pub(super) const REPLY_LEN: &str = "reply_len";

/// The name of the verb that gives the opcode of the task.
pub(super) const OWN_OPCODE: &str = "own_opcode";
/// The name of the verb that reserves room for children.
pub(super) const RESERVE_CHILDREN: &str = "reserve_children";
/// The name of the verb that makes a child.
pub(super) const SPAWN: &str = "spawn";
/// The name of the verb that waits for all children.
pub(super) const WAIT_CHILDREN: &str = "wait_children";
/// The name of the verb that says how many children have ended with a fault.
pub(super) const CHILD_FAULTS: &str = "child_faults";
/// The name of the verb that signals an event.
pub(super) const SIGNAL: &str = "signal";
/// The name of the verb that waits for an event.
pub(super) const WAIT_EVENT: &str = "wait_event";

/// The verbs of the runtime. A new verb is a row here, and code in `adapt` that says what a call of it becomes.
pub const VERBS: &[Verb] = &[
    lane_verb(YIELD_NOW, &[], VerbAction::YieldNow),
    group_verb(YIELD_NOW, &[], VerbAction::YieldNow),
    lane_verb(REQUEUE, &[Type::U32], VerbAction::Requeue),
    group_verb(REQUEUE, &[Type::U32], VerbAction::Requeue),
    lane_verb(PARK, &[], VerbAction::Park),
    group_verb(PARK, &[], VerbAction::Park),
    Verb {
        name: PAYLOAD_LEN,
        params: &[],
        more_params: 0,
        results: &[Type::U32],
        flow: ImportFlow::Any,
        widths: &[Width::Lane, Width::Group],
        action: VerbAction::PayloadLen,
    },
    lane_verb(REPLY_LEN, &[Type::U32], VerbAction::ReplyLen),
    // The length that lane 0 says is the length of the reply.
    group_verb(REPLY_LEN, &[Type::U32], VerbAction::ReplyLen),
    Verb { results: &[Type::U32], ..lane_verb(RESERVE_CHILDREN, &[Type::U32], VerbAction::ReserveChildren) },
    Verb { results: &[Type::U32], ..group_verb(RESERVE_CHILDREN, &[Type::U32], VerbAction::ReserveChildren) },
    Verb { more_params: ARGS as usize, ..lane_verb(SPAWN, &[Type::U32; 3], VerbAction::Spawn) },
    Verb { more_params: ARGS as usize, ..group_verb(SPAWN, &[Type::U32; 3], VerbAction::Spawn) },
    Verb { results: &[Type::U32], ..lane_verb(OWN_OPCODE, &[], VerbAction::OwnOpcode) },
    Verb { results: &[Type::U32], ..group_verb(OWN_OPCODE, &[], VerbAction::OwnOpcode) },
    lane_verb(WAIT_CHILDREN, &[], VerbAction::WaitChildren),
    group_verb(WAIT_CHILDREN, &[], VerbAction::WaitChildren),
    Verb { results: &[Type::U32], ..lane_verb(CHILD_FAULTS, &[], VerbAction::ChildFaults) },
    Verb { results: &[Type::U32], ..group_verb(CHILD_FAULTS, &[], VerbAction::ChildFaults) },
    lane_verb(SIGNAL, &[Type::U32; 2], VerbAction::Signal),
    group_verb(SIGNAL, &[Type::U32; 2], VerbAction::Signal),
    lane_verb(WAIT_EVENT, &[Type::U32; 2], VerbAction::WaitEvent),
    group_verb(WAIT_EVENT, &[Type::U32; 2], VerbAction::WaitEvent),
];

/// The name of a verb.
pub(super) fn verb_name(action: VerbAction) -> &'static str {
    VERBS.iter().find(|verb| verb.action == action).map_or("", |verb| verb.name)
}

/// What a call of the verb with this name does.
pub(super) fn verb_action(name: &str) -> Option<VerbAction> {
    VERBS.iter().find(|verb| verb.name == name).map(|verb| verb.action)
}

/// Validates the libraries of a `Spec`.
pub(super) fn check_libraries(spec: &Spec) -> Result<Vec<Valid>, AssembleError> {
    let check = |(index, module): (usize, &pelton_ir::module::Module)| {
        validate(module.clone()).map_err(|invalid| {
            let name = format!("library {}", index + 1);
            AssembleError::Library {
                index,
                why: format!("it is not valid\n{}", invalid.report(&name, None, ColorMode::Plain)),
            }
        })
    };
    spec.libraries.iter().enumerate().map(check).collect()
}

/// Binds the imports of a handler.
pub(super) fn bind_imports(
    handler: &NamedHandler,
    module: &Valid,
    libraries: &[Valid],
) -> Result<Valid, AssembleError> {
    bind_to(VERBS, handler.handler.width, module, libraries).map_err(|source| AssembleError::Import {
        name: handler.name.clone(),
        op: handler.op,
        source,
    })
}

/// Binds the imports that libraries define, and checks the others against the verbs.
fn bind_to(verbs: &[Verb], width: Width, module: &Valid, libraries: &[Valid]) -> Result<Valid, LinkError> {
    let bound = link::bind_imports(module, libraries)?;
    let mut unknown = Vec::new();
    for func in bound.imports() {
        let function = &bound.functions[func];
        let import = Signature::from_function(function);
        let suits = |verb: &&Verb| verb.name == import.name && verb.widths.contains(&width);
        let Some(verb) = verbs.iter().find(suits) else {
            unknown.push(unbound_import(import, verbs, libraries));
            continue;
        };
        let more = import.params.len().saturating_sub(verb.params.len()).min(verb.more_params);
        let params = verb.params.iter().copied().chain(std::iter::repeat_n(Type::U32, more)).collect();
        let found = Signature { name: verb.name.into(), params, results: verb.results.to_vec() };
        if import != found {
            return Err(LinkError::Signature { import: Box::new(import), found: Box::new(found) });
        }
        if verb.flow == ImportFlow::Uniform && function.kind != FunctionKind::Import(ImportFlow::Uniform) {
            return Err(LinkError::Uniform { import });
        }
    }
    if unknown.is_empty() { Ok(bound) } else { Err(LinkError::Unbound(unknown)) }
}

/// Describes an import that neither a library nor a verb defines, with the nearest known name.
fn unbound_import(import: Signature, verbs: &[Verb], libraries: &[Valid]) -> MissingImport {
    let functions = libraries.iter().flat_map(|library| library.functions.iter()).map(|(_, f)| f);
    let functions = functions.filter(|f| f.kind == FunctionKind::Function).map(|f| &*f.name);
    let known = verbs.iter().map(|verb| verb.name).chain(functions);
    let nearest = nearest_name(&import.name, known.filter(|name| *name != import.name)).map(String::from);
    MissingImport { import, nearest }
}

#[cfg(test)]
mod tests {
    use pelton_ir::valid::validate_text;

    use super::*;

    const TWO: &[Verb] = &[
        Verb {
            name: "spawn",
            params: &[Type::U32, Type::U32],
            more_params: 0,
            results: &[Type::U32],
            flow: ImportFlow::Any,
            widths: &[Width::Lane],
            action: VerbAction::Requeue,
        },
        group_verb("sync", &[], VerbAction::YieldNow),
    ];

    fn bound(width: Width, import: &str) -> Result<(), String> {
        let module = validate_text(import).expect("it is valid");
        bind_to(TWO, width, &module, &[]).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn verbs_are_held_to_their_rows() {
        let spawn = "import fn spawn(%op: u32, %a: u32) -> u32";
        assert_eq!(bound(Width::Lane, spawn), Ok(()));
        assert_eq!(bound(Width::Group, "import uniform fn sync()"), Ok(()));
        for (width, import, why) in [
            (Width::Group, spawn, "no library has a function for the import `spawn(u32, u32) -> u32`"),
            (
                Width::Lane,
                "import fn spwan(%a: u32)",
                "no library has a function for the import `spwan(u32)` (did you mean `spawn`?)",
            ),
            (
                Width::Lane,
                "import fn spawn(%a: u32) -> u32",
                "the import `spawn(u32) -> u32` does not fit `spawn(u32, u32) -> u32`",
            ),
            (
                Width::Group,
                "import fn sync()",
                "lanes of a group meet in `sync()`, so it can be bound only to `import uniform fn sync`",
            ),
        ] {
            assert_eq!(bound(width, import), Err(why.into()), "{import}");
        }
    }
}
