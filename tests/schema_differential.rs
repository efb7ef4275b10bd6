//! Our validator against `boon`: random schemas over the supported keywords, random values, equal verdicts.
//! Fractions are quarters, and no `multipleOf` meets a large number: there the other one computes with rounded floats.

use boon::{Compiler, Schemas};
use serde_json::{Map, Value, json};
use tidegate::action::schema::Schema;

const SCHEMAS: u64 = 2_000;
const INSTANCES: usize = 12;
const NAMES: [&str; 5] = ["a", "b", "ab", "c", "é"];
const TEXTS: [&str; 8] = ["", "a", "b", "ab", "aab", "é", "🦀a", "c\n"];
/// Patterns both translate to the same language.
const PATTERNS: [&str; 8] = ["^a", "b$", "^[ab]+$", ".", "^.$", "a|é", "^\\w*$", "\\s"];

#[test]
fn verdicts_equal_those_of_another_validator() {
    let mut valid = 0;
    for seed in 1..=SCHEMAS {
        let mut random = Random::seeded(seed);
        let mut defs = Map::new();
        for name in ["d0", "d1"] {
            defs.insert(name.to_owned(), schema(&mut random, 2, References::None));
        }
        let mut document = match schema(&mut random, 4, References::Allowed) {
            Value::Object(map) => map,
            boolean => Map::from_iter([("allOf".to_owned(), json!([boolean]))]),
        };
        document.insert("$defs".to_owned(), Value::Object(defs));
        valid += check_agreement(seed, Value::Object(document), &mut random);
    }
    // both verdicts must be common, or the generator proves nothing
    let cases = usize::try_from(SCHEMAS).expect("a small number") * INSTANCES;
    assert!(valid > cases / 10 && valid < cases * 9 / 10, "{valid} of {cases} valid");
}

/// Checks random instances of one schema; gives how many were valid.
#[track_caller]
fn check_agreement(seed: u64, document: Value, random: &mut Random) -> usize {
    let ours = Schema::compile(&document).unwrap_or_else(|errors| panic!("seed {seed}: {errors:?}\n{document:#}"));
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.add_resource("mem:///schema.json", document.clone()).expect("a fresh compiler takes a document");
    let index = compiler
        .compile("mem:///schema.json", &mut schemas)
        .unwrap_or_else(|error| panic!("seed {seed}: the other validator refuses: {error:#}\n{document:#}"));
    let mut valid = 0;
    for _ in 0..INSTANCES {
        let instance = instance(random, 3);
        let verdict = ours.validate(&instance.clone().into());
        let other = schemas.validate(&instance, index);
        assert_eq!(verdict.is_ok(), other.is_ok(), "seed {seed}: ours {verdict:?}\nother {other:?}\n{document:#}\n{instance}");
        assert!(verdict.as_ref().err().is_none_or(|invalid| !invalid.exhausted && !invalid.violations.is_empty()));
        valid += usize::from(verdict.is_ok());
    }
    valid
}

/// Whether a schema may hold `$ref`: the definitions may not, so that nothing goes in circles.
#[derive(Clone, Copy)]
enum References {
    None,
    Allowed,
}

fn schema(random: &mut Random, depth: usize, references: References) -> Value {
    if depth == 0 || random.below(12) == 0 {
        return random.pick(&[json!(true), json!({}), json!({"type": "integer"}), json!(false), json!({"minLength": 1})]);
    }
    let mut map = Map::new();
    for _ in 0..=random.below(3) {
        let (keyword, value) = keyword(random, depth - 1, references);
        map.insert(keyword.to_owned(), value);
    }
    // these mean little alone
    if map.contains_key("if") {
        map.insert("then".to_owned(), schema(random, depth - 1, references));
        map.insert("else".to_owned(), schema(random, depth - 1, references));
    }
    if map.contains_key("contains") && random.below(2) == 0 {
        map.insert("minContains".to_owned(), json!(random.below(3)));
        map.insert("maxContains".to_owned(), json!(random.below(3)));
    }
    Value::Object(map)
}

fn keyword(random: &mut Random, depth: usize, references: References) -> (&'static str, Value) {
    if random.below(5) < 2 {
        return assertion(random);
    }
    let mut sub = |random: &mut Random| schema(random, depth, references);
    match random.below(21) {
        0 => ("items", sub(random)),
        1 => ("prefixItems", some(random, &mut sub)),
        2 => ("contains", sub(random)),
        3 | 4 => ("unevaluatedItems", sub(random)),
        5 | 6 => ("properties", named(random, &NAMES, &mut sub)),
        7 => ("patternProperties", named(random, &PATTERNS, &mut sub)),
        8 => ("additionalProperties", sub(random)),
        9 => ("propertyNames", sub(random)),
        10 => ("dependentSchemas", named(random, &NAMES, &mut sub)),
        11 | 12 => ("unevaluatedProperties", sub(random)),
        13 => ("allOf", some(random, &mut sub)),
        14 | 15 => ("anyOf", some(random, &mut sub)),
        16 => ("oneOf", some(random, &mut sub)),
        17 => ("not", sub(random)),
        18 => ("if", sub(random)),
        _ => match references {
            References::None => ("items", sub(random)),
            References::Allowed => ("$ref", random.pick(&[json!("#/$defs/d0"), json!("#/$defs/d1")])),
        },
    }
}

fn assertion(random: &mut Random) -> (&'static str, Value) {
    const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
    match random.below(16) {
        0 => ("type", json!(random.pick(&TYPES))),
        1 => {
            let first = random.below(6);
            ("type", json!([TYPES[first], TYPES[first + 1]]))
        }
        2 => ("enum", Value::Array((0..4).map(|_| instance(random, 1)).collect())),
        3 => ("const", instance(random, 1)),
        4 => ("minimum", number(random)),
        5 => ("maximum", number(random)),
        6 => ("exclusiveMinimum", number(random)),
        7 => ("exclusiveMaximum", number(random)),
        8 if random.large => ("minimum", number(random)),
        8 => ("multipleOf", random.pick(&[json!(1), json!(2), json!(0.5), json!(0.75), json!(3)])),
        9 => ("minLength", json!(random.below(3))),
        10 => ("maxLength", json!(random.below(3))),
        11 => ("pattern", json!(random.pick(&PATTERNS))),
        12 => (random.pick(&["minItems", "minProperties"]), json!(random.below(3))),
        13 => (random.pick(&["maxItems", "maxProperties"]), json!(random.below(3))),
        14 => ("uniqueItems", json!(true)),
        _ => match random.below(2) {
            0 => ("required", json!([random.pick(&NAMES)])),
            _ => ("dependentRequired", json!({random.pick(&NAMES): [random.pick(&NAMES)]})),
        },
    }
}

fn some(random: &mut Random, make: &mut impl FnMut(&mut Random) -> Value) -> Value {
    (0..=random.below(3)).map(|_| make(random)).collect()
}

fn named(random: &mut Random, names: &[&str], make: &mut impl FnMut(&mut Random) -> Value) -> Value {
    (0..=random.below(3)).map(|_| (random.pick(names).to_owned(), make(random))).collect()
}

fn number(random: &mut Random) -> Value {
    let quarters = i32::try_from(random.below(41)).expect("a small number") - 20;
    match random.below(8) {
        0 if random.large => random.pick(&[json!(u64::MAX), json!(i64::MIN)]),
        1 if random.large => random.pick(&[json!(1e300), json!(-1e300)]),
        2 | 3 => json!(f64::from(quarters) / 4.0),
        4 => json!(f64::from(quarters)),
        _ => json!(quarters / 4),
    }
}

fn instance(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 10 }) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 | 3 => number(random),
        4 => json!(random.pick(&TEXTS)),
        5 | 6 => (0..random.below(5)).map(|_| instance(random, depth - 1)).collect(),
        _ => (0..random.below(5)).map(|_| (random.pick(&NAMES).to_owned(), instance(random, depth - 1))).collect(),
    }
}

/// xorshift64*: enough for test data, the same on every machine.
struct Random {
    state: u64,
    /// Whether large numbers may come, and `multipleOf` may not.
    large: bool,
}

impl Random {
    fn seeded(seed: u64) -> Random {
        Random { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, large: seed.is_multiple_of(2) }
    }

    fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let high = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).expect("31 bits") % end
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}
