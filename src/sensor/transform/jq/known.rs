//! The functions that gojq 0.12 has, so that a name it does not know is told from one that only this program refuses.

/// Names by the number of arguments.
const NAMES: [&str; 5] = [
    "abs acos acosh add all any arrays ascii_downcase ascii_upcase asin asinh atan atanh booleans builtins cbrt ceil \
     combinations cos cosh empty env erf erfc error exp exp10 exp2 explode expm1 fabs false finites first flatten floor \
     frexp from_entries fromdate fromdateiso8601 fromjson gamma gmtime halt halt_error implode infinite input inputs \
     isfinite isinfinite isnan isnormal iterables j0 j1 keys last length lgamma localtime log log10 log1p log2 logb ltrim \
     max min mktime modf modulemeta nan nearbyint normals not now null nulls numbers objects paths recurse reverse rint \
     round rtrim scalars significand sin sinh sort sqrt strings tan tanh tgamma to_entries toboolean todate \
     todateiso8601 tojson tonumber tostream tostring transpose trim true trunc type unique utf8bytelength values y0 y1",
    "IN INDEX add all any bsearch capture combinations contains debug del delpaths endswith error first flatten format \
     fromstream getpath group_by halt_error has in index indices inside isempty join last ltrimstr map map_values match \
     max_by min_by nth path paths pick range recurse repeat rindex rtrimstr scan select sort_by split splits startswith \
     strflocaltime strftime strptime test trimstr truncate_stream unique_by walk with_entries",
    "IN INDEX JOIN all any atan2 capture copysign drem fdim fmax fmin fmod gsub hypot jn ldexp limit match nextafter \
     nexttoward nth pow range recurse remainder scalb scalbln scan setpath skip split splits sub test until while yn",
    "JOIN fma gsub range sub",
    "JOIN",
];
/// Formats of texts.
const FORMATS: [&str; 10] = [
    "@text", "@json", "@html", "@uri", "@urid", "@csv", "@tsv", "@sh", "@base64", "@base64d",
];

/// Whether gojq has a function of that name with so many arguments; names with an underscore in front are its own.
pub(super) fn is_function(name: &str, arguments: usize) -> bool {
    let listed = NAMES.get(arguments);
    name.starts_with('_')
        || name.contains("::")
        || listed.is_some_and(|names| names.split_whitespace().any(|known| known == name))
}

/// Whether gojq has a format of that name.
pub(super) fn is_format(name: &str) -> bool {
    FORMATS.contains(&name)
}
