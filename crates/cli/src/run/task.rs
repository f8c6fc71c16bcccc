//! Parses a line of JSON as a task.

use std::borrow::Cow;
use std::cell::{Ref, RefCell};
use std::fmt;

use pelton::kernel::PROVIDED_OPS;
use pelton::kernel::TenantId;
use pelton::protocol::opcode::TABLE;
use pelton::protocol::slot;
use pelton::{Batch, EventCondition, Graph, Opcode, Priority, Spec, Task, Tenant};
use pelton_filetest::hint::name_hint;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::lines::LONGEST;
use super::payload::{ByteForm, LinePayload};

/// The opcodes, graphs and tenants that lines can name.
pub(super) struct TaskNames {
    /// The names of handlers, then of built-in opcodes, and then of handlers that were removed.
    ops: RefCell<Vec<OpName>>,
    graphs: Vec<Graph>,
    tenants: Vec<Tenant>,
    /// Whether tenants have events, so that tasks can signal them.
    pub has_events: bool,
}

/// The name of an opcode.
#[derive(Clone)]
struct OpName {
    name: String,
    /// The name as a JSON string.
    quoted: String,
    op: Opcode,
    /// Whether its handler was removed. Its tasks end with a fault, because the session gives the opcode to no other one.
    removed: bool,
}

impl OpName {
    fn new(name: &str, op: Opcode) -> Self {
        let quoted = serde_json::Value::from(name).to_string();
        OpName { name: name.into(), quoted, op, removed: false }
    }
}

/// The task of a line, with its tenant and its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TaskOrder {
    /// The task to submit. If it launches a graph, its arguments are the parameters of the graph.
    pub task: Task,
    /// The graph that it launches, by its number in the spec.
    pub graph: Option<usize>,
    /// What it waits for before it begins.
    pub after: Option<EventCondition>,
    /// The tenant that the task belongs to.
    pub tenant: TenantId,
    /// What the task brings along.
    pub payload: Vec<u8>,
    /// The form in which its reply is written.
    pub reply_form: ByteForm,
}

impl TaskNames {
    pub(super) fn new(spec: &Spec) -> Self {
        let (ops, graphs, tenants) = (RefCell::default(), spec.graphs.clone(), spec.tenants.clone());
        let names = TaskNames { ops, graphs, tenants, has_events: spec.events > 0 };
        names.update_handlers(spec);
        names
    }

    /// Takes up the names of the handlers that a session has now. Those of handlers that it had before stay known.
    pub(super) fn update_handlers(&self, spec: &Spec) {
        let own = spec.handlers.iter().map(|h| OpName::new(&h.name, h.op));
        let mut ops: Vec<OpName> =
            own.chain(TABLE.iter().map(|row| OpName::new(row.name, row.opcode))).collect();
        let mut known = self.ops.borrow_mut();
        let gone = known.iter().filter(|known| ops.iter().all(|name| name.op != known.op));
        let gone: Vec<OpName> = gone.map(|known| OpName { removed: true, ..known.clone() }).collect();
        ops.extend(gone);
        *known = ops;
    }

    /// The graph with this number in the spec.
    pub(super) fn graph(&self, number: usize) -> &Graph {
        &self.graphs[number]
    }

    /// An opcode as JSON: its name, or its number as an error if it has no name.
    pub(super) fn quoted(&self, op: Opcode) -> Result<Ref<'_, str>, u32> {
        let named = Ref::filter_map(self.ops.borrow(), |ops| ops.iter().find(|known| known.op == op));
        named.map(|named| Ref::map(named, |known| known.quoted.as_str())).map_err(|_| op.code())
    }

    /// Parses a line, or says what is wrong with it.
    pub(super) fn parse_order(&self, line: &[u8]) -> Result<TaskOrder, String> {
        if line.len() > LONGEST {
            return Err(format!(
                "the line has more than {LONGEST} bytes, which is the longest that is allowed"
            ));
        }
        if line.first() != Some(&b'{') {
            return Err(format!(
                "a task is a JSON object, such as {{\"op\": \"NOP\"}}, but this is {}",
                json_kind(line)
            ));
        }
        let TaskLine { op, graph, args, after, tenant, priority, bytes, text, words, reply } =
            serde_json::from_slice(line).map_err(error_clause)?;
        if args.wide || words.iter().flatten().any(|word| word.wide) {
            refuse_wide_integers(line)?;
        }
        let (op, graph) = match (op, graph) {
            (Some(op), None) => (self.parse_opcode(&op)?, None),
            (None, Some(name)) => (Opcode::LAUNCH_GRAPH, Some(self.find_graph(&name, args.count)?)),
            (Some(_), Some(_)) => return Err("a task has an `op` or a `graph`, not both".into()),
            (None, None) => return Err("a task needs an `op`, or a `graph` to launch".into()),
        };
        let mut task = Task::new(op);
        task.args = args.words;
        if let Some(priority) = priority {
            task.priority = parse_priority(&priority)?;
        }
        let tenant = match tenant {
            Some(tenant) => self.find_tenant(&tenant)?,
            None => self.only_tenant()?,
        };
        let words = words.map(|words| words.iter().map(|word| word.word).collect());
        let payload = LinePayload { bytes, text, words }.decode()?;
        let (payload, form) = payload.unwrap_or((Vec::new(), ByteForm::Base64));
        let reply_form = reply.map_or(Ok(form), |text| ByteForm::parse(&text))?;
        let after = after.map(|AfterLine { event, count }| EventCondition { event, count });
        Ok(TaskOrder { task, graph, after, tenant, payload, reply_form })
    }

    /// Finds a graph by its name, and checks that it is given so many parameters.
    fn find_graph(&self, name: &str, found: usize) -> Result<usize, String> {
        let number = self.graphs.iter().position(|graph| graph.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.graphs.iter().map(|graph| graph.name.as_str()).collect();
            match names.is_empty() {
                true => format!("there is no graph `{name}`, because the spec has no graphs"),
                false => format!("there is no graph `{name}`; {}", name_hint(name, &names)),
            }
        })?;
        let wanted = self.graphs[number].parameters;
        match found == wanted as usize {
            true => Ok(number),
            false => Err(pelton::Error::GraphParameters { name: name.into(), found, wanted }.to_string()),
        }
    }

    fn parse_opcode(&self, name: &NameOrNumber<'_>) -> Result<Opcode, String> {
        let text = match name {
            NameOrNumber::Number(code) => return plain_opcode(Opcode::from_code(*code)),
            NameOrNumber::Text(text) => text,
        };
        let ops = self.ops.borrow();
        let found = ops.iter().find(|known| known.name == *text).map(|known| known.op);
        found.or_else(|| Opcode::from_name(text)).map(plain_opcode).unwrap_or_else(|| {
            let can = ops.iter().filter(|known| !known.removed && self.can_submit(known.op));
            let names: Vec<&str> = can.map(|known| known.name.as_str()).collect();
            Err(format!("there is no opcode `{text}`; {}", name_hint(text, &names)))
        })
    }

    /// Whether a line may ask for an opcode.
    fn can_submit(&self, op: Opcode) -> bool {
        let provided = PROVIDED_OPS.iter().any(|(provided, _)| *provided == op);
        match op {
            Opcode::SIGNAL => self.has_events,
            Opcode::SHUTDOWN | Opcode::LAUNCH_GRAPH => false,
            op => !provided && Batch::new().push(0, Task::new(op)).is_ok(),
        }
    }

    /// Finds a tenant by its name or number.
    pub(super) fn find_tenant(&self, name: &NameOrNumber<'_>) -> Result<TenantId, String> {
        let found = self.tenants.iter().find(|tenant| match name {
            NameOrNumber::Number(id) => tenant.id == *id,
            NameOrNumber::Text(text) => tenant.name == *text,
        });
        found.map(|tenant| tenant.id).ok_or_else(|| {
            format!("there is no tenant `{name}`; {}", name_hint(&name.to_string(), &self.tenant_names()))
        })
    }

    /// The name of a tenant.
    pub(super) fn tenant_name(&self, id: TenantId) -> &str {
        self.tenants.iter().find(|tenant| tenant.id == id).map_or("", |tenant| &tenant.name)
    }

    /// The only tenant, for lines that name none.
    pub(super) fn only_tenant(&self) -> Result<TenantId, String> {
        match &*self.tenants {
            [only] => Ok(only.id),
            _ => Err(format!(
                "there are several tenants, so name one of them: {}",
                self.tenant_names().join(", ")
            )),
        }
    }

    /// Refuses a task of a tenant with `before` tasks before it if the kernel would never accept it.
    pub(super) fn admit(&self, id: TenantId, before: u64) -> Result<(), String> {
        let Some(tenant) = self.tenants.iter().find(|tenant| tenant.id == id) else { return Ok(()) };
        let quota = u64::from(tenant.quota);
        if tenant.mask == 0 {
            return Err(format!(
                "tenant `{}` is disabled, because its mask in the spec allows no opcode",
                tenant.name
            ));
        }
        // A task beyond the quota would wait for credit that never comes.
        if quota > 0 && before >= quota {
            return Err(format!("the tenant has used up its quota of {quota} tasks"));
        }
        Ok(())
    }

    fn tenant_names(&self) -> Vec<&str> {
        self.tenants.iter().map(|tenant| tenant.name.as_str()).collect()
    }
}

/// Refuses the opcode of tasks that launch graphs, because only the session knows the numbers of graphs.
fn plain_opcode(op: Opcode) -> Result<Opcode, String> {
    match op {
        Opcode::LAUNCH_GRAPH => {
            Err("a graph is launched by its name: {\"graph\": \"sum\", \"args\": [1, 2]}".into())
        }
        op => Ok(op),
    }
}

fn parse_priority(text: &str) -> Result<Priority, String> {
    let found = Priority::ALL.iter().find(|p| p.name().eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        let names: Vec<String> = Priority::ALL.iter().map(|p| p.name().to_lowercase()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("there is no priority `{text}`; {}", name_hint(text, &names))
    })
}

/// Describes a line that is not a JSON object.
fn json_kind(line: &[u8]) -> Cow<'static, str> {
    let text = String::from_utf8_lossy(line);
    match text.chars().next() {
        None => "nothing".into(),
        Some('[') => "an array".into(),
        Some('"') => "a string".into(),
        Some('-' | '0'..='9') => "a number".into(),
        Some(_) if matches!(&*text, "true" | "false" | "null") => text.into_owned().into(),
        Some(other) => format!("something that begins with {other:?}").into(),
    }
}

/// Refuses integers with more than 64 bits, which the JSON parser would read as floating-point numbers.
fn refuse_wide_integers(line: &[u8]) -> Result<(), String> {
    let words = line.split(|b| b"[]{},: \t".contains(b)).filter_map(|word| str::from_utf8(word).ok());
    for word in words {
        let digits = word.strip_prefix('-').unwrap_or(word);
        let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if whole && word.parse::<i64>().is_err() && word.parse::<u64>().is_err() {
            return Err(format!("invalid value: integer `{word}`, expected a number of 32 bits"));
        }
    }
    Ok(())
}

/// The parser's message with the column only, because the line is always the first.
fn error_clause(error: serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
    if error.column() == 0 { what.into() } else { format!("{what} at column {}", error.column()) }
}

/// The JSON object of a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskLine<'a> {
    #[serde(borrow, default)]
    op: Option<NameOrNumber<'a>>,
    #[serde(borrow, default)]
    graph: Option<Cow<'a, str>>,
    #[serde(default)]
    args: ArgWords,
    #[serde(default)]
    after: Option<AfterLine>,
    #[serde(borrow, default)]
    tenant: Option<NameOrNumber<'a>>,
    #[serde(borrow, default)]
    priority: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    bytes: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(default)]
    words: Option<Vec<ArgWord>>,
    #[serde(borrow, default)]
    reply: Option<Cow<'a, str>>,
}

/// The event that a task waits for before it begins.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object such as {\"event\": 0, \"count\": 1}")]
struct AfterLine {
    event: u32,
    #[serde(default = "once")]
    count: u32,
}

fn once() -> u32 {
    1
}

/// A name, or a number in its place.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum NameOrNumber<'a> {
    /// The name.
    Text(Cow<'a, str>),
    /// The number.
    Number(u32),
}

impl fmt::Display for NameOrNumber<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameOrNumber::Text(text) => f.write_str(text),
            NameOrNumber::Number(number) => write!(f, "{number}"),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for NameOrNumber<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameReader;
        impl<'de> Visitor<'de> for NameReader {
            type Value = NameOrNumber<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a number of 32 bits")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(NameOrNumber::Text(text.into()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(NameOrNumber::Text(String::from(text).into()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                let short = u32::try_from(number).map(NameOrNumber::Number);
                short.map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }
        }
        from.deserialize_any(NameReader)
    }
}

/// The arguments of a task: 32-bit integers with or without a sign, and numbers with a point or an exponent as the
/// bits of an f32.
#[derive(Default)]
struct ArgWords {
    words: [u32; slot::ARGS],
    /// How many there are.
    count: usize,
    /// Whether one of them was so large that it may have been written as an integer.
    wide: bool,
}

impl<'de> Deserialize<'de> for ArgWords {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ArgWordsReader;
        impl<'de> Visitor<'de> for ArgWordsReader {
            type Value = ArgWords;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of at most {} numbers", slot::ARGS)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ArgWords, A::Error> {
                let mut args = ArgWords::default();
                while let Some(ArgWord { word, wide }) = list.next_element()? {
                    let to = args.words.get_mut(args.count);
                    *to.ok_or_else(|| de::Error::invalid_length(args.count + 1, &self))? = word;
                    args.wide |= wide;
                    args.count += 1;
                }
                Ok(args)
            }
        }
        from.deserialize_seq(ArgWordsReader)
    }
}

struct ArgWord {
    word: u32,
    wide: bool,
}

impl From<u32> for ArgWord {
    fn from(word: u32) -> ArgWord {
        ArgWord { word, wide: false }
    }
}

impl<'de> Deserialize<'de> for ArgWord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ArgWordReader;
        impl Visitor<'_> for ArgWordReader {
            type Value = ArgWord;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of 32 bits")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<ArgWord, E> {
                let short = u32::try_from(number).map(ArgWord::from);
                short.map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<ArgWord, E> {
                let short = i32::try_from(number).map(|number| ArgWord::from(number as u32));
                short.map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<ArgWord, E> {
                let short = number as f32;
                if short.is_infinite() {
                    return Err(E::invalid_value(
                        de::Unexpected::Float(number),
                        &"a number that an f32 can hold",
                    ));
                }
                Ok(ArgWord { word: short.to_bits(), wide: number.abs() >= i64::MAX as f64 })
            }
        }
        from.deserialize_any(ArgWordReader)
    }
}

#[cfg(test)]
mod tests {
    use pelton::Handler;

    use super::*;

    fn order(line: &str) -> Result<TaskOrder, String> {
        let spec = Spec::default().tenant(Tenant::new(0).name("alice")).tenant(Tenant::new(4).name("bob"));
        let spec = spec
            .handler_at(Opcode::from_code(8), "op8", Handler::lane_wide(|slot| slot.finish(0)))
            .handler_at(Opcode::from_code(9), "op9", Handler::lane_wide(|_| ()))
            .graph(Graph::new("product", 0))
            .graph(Graph::new("sum", 2));
        TaskNames::new(&spec).parse_order(line.as_bytes())
    }

    #[test]
    fn a_line_is_a_task() {
        let TaskOrder { task, tenant, .. } =
            order(r#"{"op": "op8", "args": [1, -1, 0.5], "tenant": "bob", "priority": "high"}"#).unwrap();
        assert_eq!(
            task,
            Task::new(Opcode::from_code(8)).args([1, u32::MAX, 0x3f00_0000]).priority(Priority::High)
        );
        assert_eq!(tenant, 4);
        let TaskOrder { task, tenant, .. } = order(r#"{"tenant":0,"op":"\u0061tomic_add"}"#).unwrap();
        assert_eq!((task, tenant), (Task::new(Opcode::ATOMIC_ADD), 0));
        let TaskOrder { task, .. } =
            order(r#"{"op": 77, "tenant": 0, "args": [1e20, 3.4e38, 1e-60]}"#).unwrap();
        assert_eq!(task.args[..3], [1e20f32, 3.4e38, 0.0].map(f32::to_bits));
        assert_eq!(order(r#"{"op": 77, "tenant": 0}"#).unwrap().task.op, Opcode::from_code(77));
    }

    #[test]
    fn a_line_may_bring_a_payload() {
        let found = order(r#"{"op": 8, "tenant": 0, "text": "hé\u0021"}"#).unwrap();
        assert_eq!((&*found.payload, found.reply_form), ("hé!".as_bytes(), ByteForm::Text));
        let found = order(r#"{"op": 8, "tenant": 0, "words": [1, -1, 0.5], "reply": "bytes"}"#).unwrap();
        assert_eq!(found.payload, [1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 63]);
        assert_eq!(found.reply_form, ByteForm::Base64);
        let found = order(r#"{"op": 8, "tenant": 0, "reply": "words"}"#).unwrap();
        assert_eq!((&*found.payload, found.reply_form), (&[][..], ByteForm::Words));
    }

    #[test]
    fn a_line_may_launch_a_graph_and_wait_for_an_event() {
        let found = order(r#"{"graph": "sum", "args": [3, -1], "tenant": 4}"#).unwrap();
        assert_eq!((found.graph, found.tenant, found.after), (Some(1), 4, None));
        assert_eq!(found.task.args[..3], [3, u32::MAX, 0]);
        let after = |text: &str| {
            let found = order(&format!("{{\"op\": 8, \"tenant\": 0, \"after\": {text}}}")).unwrap();
            found.after.map(|EventCondition { event, count }| (event, count))
        };
        assert_eq!(after(r#"{"event": 5, "count": 7}"#), Some((5, 7)));
        assert_eq!(after(r#"{"event": 5}"#), Some((5, 1)));
        assert_eq!(after("null"), None);
    }

    #[test]
    fn a_bad_graph_or_event_says_why() {
        for (line, why) in [
            (r#"{"op": 8, "graph": "sum"}"#, "a task has an `op` or a `graph`, not both"),
            (r#"{"graph": "smu", "args": [1, 2]}"#, "there is no graph `smu`; did you mean sum?"),
            (r#"{"graph": "sum", "args": [1]}"#, "graph \"sum\" has 2 parameters, and 1 was given"),
            (r#"{"op": "LAUNCH_GRAPH", "args": [0]}"#, "a graph is launched by its name: "),
            (r#"{"op": 65531}"#, "a graph is launched by its name: "),
            (
                r#"{"op": 8, "tenant": 0, "after": 3}"#,
                "invalid type: integer `3`, expected an object such as",
            ),
            (r#"{"op": 8, "tenant": 0, "after": {"count": 3}}"#, "missing field `event`"),
        ] {
            let found = order(line).expect_err(line);
            assert!(found.starts_with(why), "{line}: {found}");
        }
    }

    #[test]
    fn a_bad_line_says_why() {
        for (line, why) in [
            ("{", "EOF while parsing an object at column 1"),
            ("[]", r#"a task is a JSON object, such as {"op": "NOP"}, but this is an array"#),
            (
                r#"["op8", [1], "bob", "high"]"#,
                r#"a task is a JSON object, such as {"op": "NOP"}, but this is an array"#,
            ),
            ("\"op8\"", r#"a task is a JSON object, such as {"op": "NOP"}, but this is a string"#),
            ("-8", r#"a task is a JSON object, such as {"op": "NOP"}, but this is a number"#),
            ("null", r#"a task is a JSON object, such as {"op": "NOP"}, but this is null"#),
            (
                "nop",
                r#"a task is a JSON object, such as {"op": "NOP"}, but this is something that begins with 'n'"#,
            ),
            (r#"{"args": []}"#, "a task needs an `op`, or a `graph` to launch"),
            (r#"{"op": "op7", "tenant": 0}"#, "there is no opcode `op7`; did you mean op8?"),
            (r#"{"op": 8, "tenant": "bib"}"#, "there is no tenant `bib`; did you mean bob?"),
            (r#"{"op": 8, "tenant": 3}"#, "there is no tenant `3`; there is alice, bob"),
            (r#"{"op": 8}"#, "there are several tenants, so name one of them: alice, bob"),
            (
                r#"{"op": 8, "tenant": 0, "priority": "hihg"}"#,
                "there is no priority `hihg`; did you mean high?",
            ),
            (r#"{"op": 8, "arg": [1]}"#, "unknown field `arg`, expected one of `op`, `graph`, `args`"),
            (
                r#"{"op": 8, "args": [4294967296]}"#,
                "invalid value: integer `4294967296`, expected a number of 32 bits",
            ),
            (
                r#"{"op": 8, "args": [1e300]}"#,
                "invalid value: floating point `1e+300`, expected a number that an f32 can hold",
            ),
            (
                r#"{"op": 8, "args": [-3.5e38]}"#,
                "invalid value: floating point `-3.5e+38`, expected a number",
            ),
            (r#"{"op": 8, "args": [1e999]}"#, "number out of range at column"),
            (
                r#"{"op": 8, "args": [18446744073709551616]}"#,
                "invalid value: integer `18446744073709551616`, expected a number of 32 bits",
            ),
            (
                r#"{"op": 8, "args": [1, -9223372036854775809]}"#,
                "invalid value: integer `-9223372036854775809`",
            ),
            (r#"{"op": 8, "args": [-2147483649]}"#, "invalid value: integer `-2147483649`"),
            (
                r#"{"op": 8, "args": [0,1,2,3,4,5,6,7,8,9,10,11,12]}"#,
                "invalid length 13, expected an array of at most 12",
            ),
            (
                r#"{"op": -1}"#,
                "invalid type: integer `-1`, expected a name or a number of 32 bits at column 9",
            ),
            (r#"{"op": 8, "op": 8}"#, "duplicate field `op`"),
            (r#"{"op": 8, "tenant": 0, "bytes": "a?"}"#, "`bytes` is not base64: character 2 is '?'"),
            (r#"{"op": 8, "tenant": 0, "bytes": "", "words": []}"#, "a task has one payload: give one of"),
            (r#"{"op": 8, "tenant": 0, "words": [4294967296]}"#, "invalid value: integer `4294967296`"),
            (
                r#"{"op": 8, "tenant": 0, "reply": "word"}"#,
                "a reply cannot be written as `word`; did you mean words?",
            ),
            (r#"{"op": 8, "tenant": 0} x"#, "trailing characters at column 24"),
        ] {
            let found = order(line).expect_err(line);
            assert!(found.starts_with(why), "{line}: {found}");
        }
        let far = order(r#"{"op": "shutdow", "tenant": 0}"#).expect_err("there is none");
        let there = "op8, op9, NOP, STORE_U32, ATOMIC_ADD, LOAD_U32, COMPARE_SWAP, MEMCPY, BATCH_FENCE, PRINTF, PACKED_SLOT";
        assert_eq!(
            far,
            format!("there is no opcode `shutdow`; there is {there}"),
            "what nobody can submit is left out"
        );
        let long = format!("{}{{}}", " ".repeat(LONGEST));
        assert!(order(&long).is_err_and(|why| why.contains("bytes, which is the longest that is allowed")));
    }
}
