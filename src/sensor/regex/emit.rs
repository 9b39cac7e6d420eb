//! From the parsed pattern to the automata that run it.

use regex_automata::meta;
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_syntax::hir::print::Printer;
use regex_syntax::hir::{Capture, Class, Dot, Hir, Repetition};

use super::ast::Node;
use super::error::RegexError;
use super::parser::Parsed;

/// Bytes of the automaton. Go's own limit lies higher: `\pL{1000}` is refused here and not there.
const MAX_AUTOMATON_BYTES: usize = 20 << 20;
/// Bytes of the cache in which a search builds its states.
const SEARCH_CACHE_BYTES: usize = 2 << 20;
/// Places of groups that a search may keep, two for each group in each state, 16 bytes each.
const MAX_PLACES: usize = 2 << 20;
/// Patterns of more levels are built on a thread with a stack for the deepest one.
pub(super) const DEEP: u32 = 100;
/// Bytes of an automaton that is looked at for its states alone.
const MAX_PRINTED_BYTES: usize = 1 << 20;
const DEEP_STACK_BYTES: usize = 64 << 20;

/// Which places of a match the automaton keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    /// Those of the match as a whole.
    Match,
    /// Those of every group as well: memory grows with groups times states.
    Groups,
}

/// Builds what runs the pattern.
pub(super) fn build(
    pattern: &str,
    parsed: &Parsed,
    places: Places,
) -> Result<meta::Regex, RegexError> {
    let regex = if parsed.height > DEEP {
        std::thread::scope(|scope| {
            std::thread::Builder::new()
                .stack_size(DEEP_STACK_BYTES)
                .spawn_scoped(scope, || build_here(&parsed.node, places))
                .ok()
                .and_then(|built| built.join().ok())
                .flatten()
        })
    } else {
        build_here(&parsed.node, places)
    };
    regex.ok_or_else(|| RegexError::limit(pattern))
}

fn build_here(node: &Node, places: Places) -> Option<meta::Regex> {
    let hir = hir(node);
    let kept = match places {
        Places::Match => WhichCaptures::Implicit,
        Places::Groups => WhichCaptures::All,
    };
    if places == Places::Groups && !keeps_few_places(&hir) {
        return None;
    }
    let config = meta::Config::new()
        .utf8_empty(true)
        .which_captures(kept)
        .nfa_size_limit(Some(MAX_AUTOMATON_BYTES))
        .hybrid_cache_capacity(SEARCH_CACHE_BYTES);
    meta::Builder::new()
        .configure(config)
        .build_from_hir(&hir)
        .ok()
}

/// The pattern in the syntax of the library, and the states of its automaton.
pub(super) fn printed(parsed: &Parsed) -> Option<(String, usize)> {
    if parsed.height > DEEP {
        return None;
    }
    let hir = hir(&parsed.node);
    let nfa = NFA::compiler()
        .configure(NFA::config().nfa_size_limit(Some(MAX_PRINTED_BYTES)))
        .build_from_hir(&hir)
        .ok()?;
    let mut text = String::new();
    Printer::new().print(&hir, &mut text).ok()?;
    Some((text, nfa.states().len()))
}

/// Whether a search can keep the places of all groups in every state.
fn keeps_few_places(hir: &Hir) -> bool {
    let config = NFA::config().nfa_size_limit(Some(MAX_AUTOMATON_BYTES));
    let mut compiler = NFA::compiler();
    compiler
        .configure(config)
        .build_from_hir(hir)
        .is_ok_and(|nfa| {
            let of_a_state = nfa.group_info().slot_len();
            nfa.states().len().saturating_mul(of_a_state) <= MAX_PLACES
        })
}

pub(super) fn hir(node: &Node) -> Hir {
    match node {
        Node::Literal(c) => Hir::literal(c.to_string().into_bytes()),
        Node::Class(class) => Hir::class(Class::Unicode(class.clone())),
        Node::Look(look) => Hir::look(*look),
        Node::AnyChar => Hir::dot(Dot::AnyChar),
        Node::AnyCharButNewline => Hir::dot(Dot::AnyCharExceptLF),
        Node::Repeat {
            min,
            max,
            greedy,
            sub,
        } => Hir::repetition(Repetition {
            min: *min,
            max: *max,
            greedy: *greedy,
            sub: Box::new(hir(sub)),
        }),
        Node::Capture { index, sub } => Hir::capture(Capture {
            index: *index,
            // Go allows a name twice; the names are kept beside the automaton.
            name: None,
            sub: Box::new(hir(sub)),
        }),
        Node::Concat(nodes) => {
            let mut parts = Vec::with_capacity(nodes.len());
            flatten(nodes, &mut parts);
            Hir::concat(parts)
        }
        Node::Alternate(nodes) => Hir::alternation(nodes.iter().map(hir).collect()),
    }
}

fn flatten(nodes: &[Node], parts: &mut Vec<Hir>) {
    for node in nodes {
        match node {
            Node::Concat(inner) => flatten(inner, parts),
            node => parts.push(hir(node)),
        }
    }
}
