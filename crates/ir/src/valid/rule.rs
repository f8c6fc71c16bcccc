//! The table of rules: what a valid module holds to, each rule with its code and its meaning.
//!
//! A rule is broken *from text* or *from Rust*: of the latter kind are those whose violation the text cannot spell
//! or the parser refuses first, so that only a program that writes modules can meet them.

use std::fmt;

/// Who can break a rule: a text, or only a program that writes modules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// A text that parses can break the rule.
    Text,
    /// Only a program that writes modules can break the rule.
    Rust,
}

macro_rules! rules {
    ($($rule:ident $code:literal $reach:ident $doc:literal;)*) => {
        /// A rule that every valid module obeys.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        pub enum Rule { $(#[doc = $doc] $rule,)* }

        impl Rule {
            /// Every rule, in the order of the table.
            pub const ALL: &[Rule] = &[$(Rule::$rule),*];

            /// Returns the code of the rule, which diagnostics show.
            pub const fn code(self) -> &'static str {
                match self { $(Rule::$rule => $code),* }
            }

            /// Returns what the rule demands.
            pub const fn doc(self) -> &'static str {
                match self { $(Rule::$rule => $doc),* }
            }

            /// Returns who can break the rule.
            pub const fn reach(self) -> Reach {
                match self { $(Rule::$rule => Reach::$reach),* }
            }
        }
    };
}

rules! {
    Size         "module-size"      Rust "A module has no more instructions, buffers and functions than the limits allow.";
    Depth        "depth"            Rust "Regions nest no deeper than the limit, the function's body included.";
    Values       "too-many-values"  Rust "What an instruction takes or gives, a loop carries and a function takes or gives is no more than the limit.";
    Cases        "too-many-cases"   Rust "A `switch` has no more regions, and its cases no more values, than the limit.";

    Need         "repeated-need"    Rust "A module lists each need once.";
    Name         "name"             Rust "Names of buffers, functions and imports are of letters, digits, `_` and `.`, do not start with a digit or `.`, and are no longer than the limit.";
    Duplicate    "duplicate-name"   Rust "No two buffers have the same name, and no two functions or imports.";
    Element      "bool-element"     Text "The elements of a buffer are numbers: `bool` is not a type of memory.";
    Empty        "empty-buffer"     Text "A buffer has at least one element.";
    Length       "long-buffer"      Text "A buffer declares no more elements than the limit.";
    SharedLength "shared-length"    Text "A shared buffer says its length: a device must know it when it loads the module.";
    SharedAccess "shared-access"    Text "A shared buffer is `read_write`: nobody else could fill or read it.";
    SharedSize   "shared-size"      Text "All shared buffers together have no more bytes than the limit.";
    ImportBody   "import-body"      Rust "An import has no body: no instructions, and no values but its parameters.";
    Kernel       "kernel-signature" Text "A kernel has no parameters and no results: buffers are what goes in and out.";

    Order        "text-order"       Rust "Values, instructions and regions of a function are numbered in the order of the text.";
    Attribute    "attribute"        Rust "An instruction names what its form asks for and nothing else: a buffer, a type, an order, a target.";
    Regions      "regions"          Rust "An op has as many regions as its kind asks, and they have the parameters of its kind: a counter, carried values.";
    Undefined    "undefined-value"  Text "A value is defined before it is used.";
    Scope        "scope"            Text "A value is used within the region that defines it, or in a region inside that one. A `while` body also sees its test.";
    End          "region-end"       Text "The last instruction of a region, and no other, ends it.";
    Yield        "yield-in-body"    Text "`yield` ends a region of an instruction; a function's body ends in `return`.";
    Target       "jump-target"      Text "`break` and `continue` name a loop or block that encloses them.";
    Continue     "continue-target"  Text "`continue` names a loop, and stands in its body: a block does not repeat, and the test of a `while` only decides.";
    Case         "switch-case"      Text "Each case of a `switch` has values, and no value stands twice.";
    Callee       "callee"           Rust "A call names a function that is declared before, so that no function calls itself.";
    CallKernel   "call-kernel"      Text "A kernel is launched, not called.";

    Count        "operand-count"    Text "An instruction has as many operands as its row of the op table.";
    Operand      "operand-type"     Text "An operand has the type that the op table, the callee or the loop asks for.";
    Result       "result-type"      Text "The results of an instruction have the types that the op table, the callee or the carried values give.";
    Ends         "end-values"       Text "`yield`, `break`, `continue` and `return` give as many values, of such types, as what they go to takes.";
    Test         "while-test"       Text "The test of a `while` ends in a `yield` of one `bool`, or leaves the loop.";
    Cast         "cast-target"      Text "`cast` gives a number, `bitcast` a type of 32 bits.";

    Buffer       "unknown-buffer"   Rust "Every buffer that an instruction names is declared.";
    Read         "read-access"      Text "What loads from a buffer needs `read` or `read_write`.";
    Write        "write-access"     Text "What stores to a buffer needs `write` or `read_write`.";
    AtomicType   "atomic-type"      Text "An atomic op works on the types of elements that its row names.";
    HostAtomic   "host-atomic"      Text "Atomics that modify do not touch host buffers: each word there has one writer.";
    AtomicOrder  "atomic-order"     Text "`atomic_load` is relaxed or acquire, `atomic_store` relaxed or release, a wide access relaxed; `seq_cst` is for fences.";
    FenceOrder   "fence-order"      Text "A fence is not relaxed: it would order nothing.";
    SharedScope  "shared-scope"     Text "An atomic access to a shared buffer has scope `group`: nobody else sees it.";
    Index        "constant-index"   Text "A constant index is less than the buffer's length.";
    Copy         "copy-type"        Text "`async_load` copies between buffers of one element type.";

    Barrier      "divergent-barrier"  Text "`barrier` and `group_broadcast` are met by all lanes of a group or by none.";
    Subgroup     "divergent-subgroup" Text "A subgroup op is met by all lanes of a subgroup or by none.";
    UniformImport "divergent-import"  Text "A call of a uniform import is met by all lanes of a group or by none.";
    From         "divergent-from"     Text "`from` is the same in all lanes of the group for `group_broadcast`, and of the subgroup for `broadcast`.";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}
