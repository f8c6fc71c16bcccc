//! The checks of everything outside of function bodies: needs, buffers and the heads of functions.

use std::collections::HashSet;

use super::Rule;
use super::error::{CheckResult, ErrorSite, Errors, fail};
use crate::arena::Func;
use crate::limits::{MAX_ARGS, MAX_BUFFERS, MAX_FUNCTIONS, MAX_INSTS, MAX_LEN, MAX_NAME, MAX_SHARED};
use crate::module::{BufferDecl, FunctionKind, Module};
use crate::text::is_name;
use crate::types::{Access, Len, Space, Type};

/// Checks needs, buffers and sizes. Returns false if the module is too large to check the rest.
pub(super) fn check_module(module: &Module, errors: &mut Errors) -> bool {
    let size = size(module);
    let fits = size.is_ok();
    errors.record(ErrorSite::Module, size);
    if !fits {
        return false;
    }
    for (k, need) in module.needs.iter().enumerate() {
        if module.needs[..k].contains(need) {
            errors.record(
                ErrorSite::Module,
                fail(Rule::Need, format!("`need {need}` is listed twice: remove one")),
            );
            break;
        }
    }
    check_buffers(module, errors);
    true
}

fn size(module: &Module) -> CheckResult {
    let insts: usize = module.functions.iter().map(|(_, f)| f.insts.len()).sum();
    for (found, most, what) in [
        (module.buffers.len(), MAX_BUFFERS, "buffers"),
        (module.functions.len(), MAX_FUNCTIONS, "functions"),
        (insts, MAX_INSTS, "instructions"),
    ] {
        if found > most {
            return fail(
                Rule::Size,
                format!("the module has {found} {what}, but at most {most} are allowed"),
            );
        }
    }
    Ok(())
}

fn check_buffers(module: &Module, errors: &mut Errors) {
    let mut names = HashSet::new();
    let mut shared = 0;
    for (buffer, decl) in module.buffers.iter() {
        let check = check_name(&decl.name)
            .and_then(|()| fresh(&mut names, &decl.name, "buffer"))
            .and_then(|()| shape(decl))
            .and_then(|()| share(decl, &mut shared));
        errors.record(ErrorSite::Buffer(buffer), check);
    }
}

/// Checks that a name is not taken, and takes it.
fn fresh<'m>(names: &mut HashSet<&'m str>, name: &'m str, what: &str) -> CheckResult {
    if names.insert(name) {
        Ok(())
    } else {
        fail(Rule::Duplicate, format!("there already is a {what} named `{name}`: rename one of them"))
    }
}

/// Adds the bytes of a shared buffer. Only the first buffer that exceeds the limit is reported.
fn share(decl: &BufferDecl, bytes: &mut u64) -> CheckResult {
    let (Space::Shared, Len::Fixed(len)) = (decl.space, decl.len) else { return Ok(()) };
    let before = *bytes;
    *bytes += len * u64::from(decl.elem.bits() / 8);
    if before <= MAX_SHARED && *bytes > MAX_SHARED {
        let text =
            format!("the shared buffers up to here take {bytes} bytes, but at most {MAX_SHARED} are allowed");
        return fail(Rule::SharedSize, text);
    }
    Ok(())
}

/// Checks the element type, the length and the access of a buffer.
fn shape(decl: &BufferDecl) -> CheckResult {
    let name = &decl.name;
    if decl.elem == Type::Bool {
        return fail(
            Rule::Element,
            format!("`@{name}` has elements of type bool, which memory cannot hold: use u32 with 0 and 1"),
        );
    }
    match decl.len {
        Len::Fixed(0) => {
            return fail(Rule::Empty, format!("`@{name}` has no elements: a buffer has at least one"));
        }
        Len::Fixed(n) if n > MAX_LEN => {
            return fail(
                Rule::Length,
                format!("`@{name}` has {n} elements, but at most {MAX_LEN} are allowed"),
            );
        }
        Len::Launch if decl.space == Space::Shared => {
            return fail(
                Rule::SharedLength,
                format!("`@{name}` is shared, so its length must be known: write a number instead of `?`"),
            );
        }
        _ => {}
    }
    if decl.space == Space::Shared && decl.access != Access::ReadWrite {
        let found = decl.access;
        return fail(
            Rule::SharedAccess,
            format!(
                "`@{name}` is shared, so only kernels can fill and read it: write `read_write` instead of `{found}`"
            ),
        );
    }
    Ok(())
}

/// Checks the head of a function. `names` has the names of the functions before it.
pub(super) fn check_function_head<'m>(
    module: &'m Module,
    func: Func,
    names: &mut HashSet<&'m str>,
    errors: &mut Errors,
) {
    let function = &module.functions[func];
    let check = check_name(&function.name).and_then(|()| {
        fresh(names, &function.name, "function")?;
        let (params, results) = (function.params.len(), function.results.len());
        if function.kind == FunctionKind::Kernel && params + results > 0 {
            let name = &function.name;
            return fail(
                Rule::Kernel,
                format!("kernel `{name}` has parameters or results: pass values in a buffer"),
            );
        }
        for (found, what) in [(params, "parameters"), (results, "results")] {
            if found > MAX_ARGS {
                return fail(
                    Rule::Values,
                    format!("the function has {found} {what}, but at most {MAX_ARGS} are allowed"),
                );
            }
        }
        Ok(())
    });
    errors.record(ErrorSite::Function(func), check);
}

/// Checks that the text can spell a name.
fn check_name(name: &str) -> CheckResult {
    if name.len() > MAX_NAME {
        let (start, _) = name.split_at(name.floor_char_boundary(MAX_NAME / 2));
        let found = name.len();
        return fail(
            Rule::Name,
            format!("the name `{start}…` has {found} bytes, but at most {MAX_NAME} are allowed"),
        );
    }
    if !is_name(name) {
        return fail(
            Rule::Name,
            format!("the text cannot spell the name {name:?}: use letters, digits, `_` and `.`"),
        );
    }
    Ok(())
}
