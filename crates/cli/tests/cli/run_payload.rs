//! `pelton run` with payloads and replies.

use serde_json::{Value, json};

use crate::{RunOutput, ScratchFolder, pelton, pelton_with};

/// A spec whose handler `upper` replies with the letters of its payload in upper case, and whose handler `first`
/// returns the first word of its payload.
const SPEC: &str = r#"
payload = 21
reply = 24

[geometry]
slots = 64

[[handler]]
name = "upper"
text = '''
import fn payload_len() -> u32
import fn reply_len(%bytes: u32)
buffer payload: [u32; ?] global read
buffer reply: [u32; ?] global read_write

fn upper() -> u32 {
  %bytes = call payload_len()
  loop %at = 0 to %bytes step 1 {
    %word = shr %at, 2
    %byte = and %at, 3
    %letter = load_byte @payload[%word], %byte
    %after = sub %letter, 97
    %small = lt %after, 26
    %less = select %small, 32, 0
    %large = sub %letter, %less
    %bits = shl %byte, 3
    %moved = shl %large, %bits
    %old = load @reply[%word]
    %new = or %old, %moved
    store @reply[%word], %new
  }
  call reply_len(%bytes)
  return %bytes
}
'''

[[handler]]
name = "first"
text = '''
buffer payload: [u32; ?] global read

fn first() -> u32 {
  %word = load @payload[0]
  return %word
}
'''
"#;

fn run(name: &str, spec: &str, lines: &str) -> (RunOutput, Vec<Value>) {
    let folder = ScratchFolder::new(name);
    let spec = folder.file("spec.toml", spec);
    let ran = pelton_with(&["run", &spec, "--bad", "skip"], lines);
    let results = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (ran, results)
}

const LINES: &str = r#"{"op": "upper", "text": "Hello, wörld"}
{"op": "upper", "bytes": "aGk="}
{"op": "upper", "words": [1684234849]}
{"op": "upper", "text": "ab", "reply": "words"}
{"op": "upper", "text": "ab", "reply": "bytes"}
{"op": "upper"}
{"op": "first", "words": [7, 8]}
{"op": "first"}
"#;

#[test]
fn payloads_go_in_and_replies_come_out_in_every_form() {
    for lifetime in ["persistent", "drain"] {
        let spec = format!("lifetime = {lifetime:?}\n{SPEC}");
        let (ran, found) = run(&format!("run-payload-{lifetime}"), &spec, LINES);
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        let done = |line: u32, op: &str, result: u32, reply: Value| {
            let mut all = json!({ "line": line, "op": op, "status": "done", "result": result });
            all.as_object_mut().unwrap().extend(reply.as_object().unwrap().clone());
            all
        };
        let expect = [
            done(1, "upper", 13, json!({ "text": "HELLO, WöRLD" })),
            done(2, "upper", 2, json!({ "bytes": "SEk=" })),
            done(3, "upper", 4, json!({ "words": [1145258561] })),
            done(4, "upper", 2, json!({ "words": [16961] })),
            done(5, "upper", 2, json!({ "bytes": "QUI=" })),
            done(6, "upper", 0, json!({})),
            done(7, "first", 7, json!({})),
            json!({ "line": 8, "op": "first", "status": "fault", "fault": { "code": 2, "name": "out of region" } }),
        ];
        assert_eq!(found, expect, "{lifetime}");
    }
}

#[test]
fn payloads_that_are_wrong_are_named_with_their_line() {
    let lines = r#"{"op": "upper", "bytes": "aG!="}
{"op": "upper", "text": "a text that is too long"}
{"op": "upper", "text": "fits"}
{"op": "upper", "text": "a", "words": [1]}
"#;
    for lifetime in ["persistent", "drain"] {
        let spec = format!("lifetime = {lifetime:?}\n{SPEC}");
        let (ran, found) = run(&format!("run-payload-bad-{lifetime}"), &spec, lines);
        assert_eq!((ran.code, found.len()), (Some(1), 1), "{}", ran.err);
        for why in [
            "line 1: `bytes` is not base64: character 3 is '!'",
            "line 2: a payload of 23 bytes cannot be submitted: it may have at most 21",
            "line 4: a task has one payload: give one of `bytes`, `text` and `words`",
        ] {
            assert!(ran.err.contains(why), "{lifetime}: {why}\n{}", ran.err);
        }
    }
    let (ran, _) = run("run-payload-none", "", "{\"op\": \"NOP\", \"text\": \"a\"}\n");
    assert!(
        ran.err.contains("line 1: a payload of 1 bytes cannot be submitted: tasks have no payloads here")
    );
}

#[test]
fn the_kernel_command_shows_the_sizes() {
    let folder = ScratchFolder::new("kernel-payload");
    let spec = folder.file("spec.toml", SPEC);
    let ran = pelton(&["kernel", &spec, "--device", "cpu"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains(", payloads of up to 21 bytes, replies of up to 24 bytes"), "{}", ran.err);
    let whole = pelton(&["kernel", &spec, "--whole"]);
    assert!(whole.out.contains("payload = 21\nreply = 24\n"), "{}", whole.out);
}
