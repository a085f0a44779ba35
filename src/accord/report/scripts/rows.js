"use strict";
// What is done with rows, apart from the page: compare, filter and write as CSV.

const collator = new Intl.Collator("en", { numeric: true });
const FORMULA = /^[\s'"]*[=+\-@\t\r\n＝＋－＠]/;
const DECIMAL = /^[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$/;
const NUMBER = /^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$/;

// Numbers by size, also where they are text, then words; what is missing comes last, whichever way it is sorted.
function compare(one, other, down) {
  const missing = (one === null || one === "") - (other === null || other === "");
  if (missing || one === null || one === "") return missing;
  const [a, b] = [String(one), String(other)];
  const [first, second] = [DECIMAL.test(a), DECIMAL.test(b)];
  const sizes = first && second ? Number(a) - Number(b) : second - first;
  const found = sizes || collator.compare(a, b);
  return down ? -found : found;
}

// Places of rows in the order of a column; rows that are alike keep the order they had.
function sorted(places, values, down) {
  return places.slice().sort((one, other) => compare(values(one), values(other), down));
}

// Places of the rows that meet every condition: words anywhere, a value of a column, and ranges of numbers.
function filtered(rows, { words = "", equal = [], ranges = [] }) {
  const asked = words.trim().toLowerCase();
  const places = [];
  rows.forEach((row, at) => {
    const meets =
      equal.every(([column, value]) => row[column] === value) &&
      ranges.every(([column, low, high]) => row[column] >= low && row[column] <= high) &&
      (!asked || row.some((cell) => typeof cell === "string" && cell.toLowerCase().includes(asked)));
    if (meets) places.push(at);
  });
  return places;
}

// A cell of CSV; text that a spreadsheet program would take for a formula begins with an apostrophe.
function cell(value) {
  if (value === null) return "";
  const text = String(value);
  const plain = typeof value === "string" && FORMULA.test(text) && !NUMBER.test(text) ? "'" + text : text;
  return /[",\r\n]/.test(plain) ? '"' + plain.replaceAll('"', '""') + '"' : plain;
}

function csv(names, rows) {
  return [names, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}
