//! Formatting keeps what people wrote for people.

use pelton_ir::text::{self, ColorMode};

use crate::{SAMPLE, read};

fn format(text: &str) -> String {
    text::format(text).unwrap_or_else(|errors| {
        panic!("{}", text::render_diagnostics("text", text, &errors, ColorMode::Plain))
    })
}

#[test]
fn comments_stay_where_they_were() {
    let expected = "\
; A sample that uses every construct.

need independent_subgroups

buffer data: [u32; ?] global read_write
buffer hist: [u32; 256] shared read_write
buffer ring: [u64; 0x400] host read  ; the host's

; Twice the argument.
fn twice(%x: u32) -> u32 {
  %y = add %x, %x
  return %y
}

fn pair(%x: u32) -> (u32, f32) {
  %1 = cast f32 %x
  return %x, %1
}

kernel main {
  %i = lane
  %x = load @data[%i]  ; trailing
  %old = atomic_add relaxed device @data[0], %x
  %a, %b = load_wide relaxed system @ring[%i]
  %p, %q = call pair(%x)
  %c = lt %x, 0x10

  ; before the choice
  %r: u32, %s: f32 = if %c {
    yield %x, 1.0
    ; after the yield
  } else {  ; otherwise
    yield 0, %q
  }
  switch %x {
    ; zero
    case 0 {
      store @data[%i], 1
    }
    case 1, 7 {
      barrier
    }
  }
  %v: u32 = block ^out {
    if %c {
      break ^out %x
    } else {
      ; nothing, on purpose
    }
    yield 3
  }
";
    let out = format(SAMPLE);
    assert_eq!(&out[..expected.len().min(out.len())], expected);
    assert!(out.ends_with("    backoff 1_000\n  }\n  ; the end of main\n}\n; the end\n"), "{out}");
}

#[test]
fn formatting_twice_is_formatting_once_wherever_comments_stand() {
    let mut tried = 0;
    for (at, _) in SAMPLE.match_indices([' ', '\n']) {
        for probe in [" ; probe\n", "\n; probe\n", "\n\n\n; probe\n\n; another\n\n\n"] {
            let text = format!("{}{probe}{}", &SAMPLE[..at], &SAMPLE[at..]);
            // Within a comment the rest of it becomes a mistake.
            let Ok(once) = text::format(&text) else { continue };
            tried += 1;
            assert!(read(&once) == read(&text), "{once}");
            assert_eq!(format(&once), once);
            assert_eq!(once.matches(';').count(), text.matches(';').count(), "{once}");
        }
    }
    assert!(tried > 500, "{tried} texts");
}

#[test]
fn without_comments_it_is_printing() {
    let printed = text::print(&read(SAMPLE));
    assert_eq!(format(&printed), printed);
    let printed = text::print(&crate::every());
    assert_eq!(format(&printed), printed);
}

#[test]
fn odd_texts_have_a_form() {
    assert_eq!(format(""), "");
    assert_eq!(format("\n\n ; alone\t \r\n\n\n"), "; alone\n");
    assert_eq!(format("kernel a{}kernel b{}"), "kernel a {\n}\n\nkernel b {\n}\n");
    assert_eq!(
        format("kernel a{\r\n\r\nbarrier\r\n\r\n\r\nbarrier ; x\r\n\r\n}"),
        "kernel a {\n  barrier\n\n  barrier  ; x\n}\n"
    );
    assert_eq!(format("kernel a{switch 1{;a\n;b\n}}"), "kernel a {\n  switch 1 {  ;a\n    ;b\n  }\n}\n");
}

#[test]
fn imports_stay_where_they_were() {
    let text = "\
; what others define
import fn hash(%x: u32) -> u32  ; mixes

buffer data: [u32; 0x10] global read
; meets
import uniform fn meet()
buffer more: [u32; 4] global read

kernel main {
  call meet()
}

; late
import fn late()
import fn later()

kernel other {
  call late()
}
";
    assert_eq!(format(text), text);
}
