"use strict";
// What is done with rows, apart from the page: compare, filter and write as CSV.

const collator = new Intl.Collator("en", { numeric: true });
const FORMULA = /^[\s'"]*[=+\-@\t\r\n＝＋－＠]/;
const NUMBER = /^[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?$/;

// Numbers by size, other values as words; what is missing comes last, whichever way it is sorted.
function compare(one, other, down) {
  const missing = (one === null || one === "") - (other === null || other === "");
  if (missing || one === null || one === "") return missing;
  const numbers = typeof one === "number" && typeof other === "number";
  const found = numbers ? one - other : collator.compare(String(one), String(other));
  return down ? -found : found;
}

// Places of rows in the order of a column; rows that are alike keep the order they had.
function sorted(places, values, down) {
  return places.slice().sort((one, other) => compare(values(one), values(other), down) || one - other);
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
  return /[",\r\n]/.test(plain) || plain !== plain.trim() ? '"' + plain.replaceAll('"', '""') + '"' : plain;
}

function csv(names, rows) {
  return [names, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}
