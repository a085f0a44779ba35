"use strict";
// The table of all flagged labels: sorted, filtered, searched, paged, selected and saved.

function flagged(section) {
  const find = (name) => section.querySelector(`[data-is="${name}"]`);
  const every = (name) => [...section.querySelectorAll(`[data-is="${name}"]`)];
  const { columns, rows, pictures, file } = JSON.parse(document.getElementById("flagged-rows").textContent);
  const body = find("rows");
  const chosen = new Set();
  let order = [...rows.keys()];
  let shown = order;
  let page = 0;

  for (const one of document.querySelectorAll("img[data-row]")) pictures[one.dataset.row] = one.src;
  const pictured = Object.keys(pictures).length > 0;

  function asked() {
    const chosenOf = every("equal").filter((one) => one.value !== "");
    const ranges = every("range").map((one) => {
      const [low, high] = [...one.querySelectorAll("input")].map((input) => input.value);
      return [Number(one.dataset.column), low === "" ? -Infinity : Number(low), high === "" ? Infinity : Number(high)];
    });
    return {
      words: find("words").value,
      equal: chosenOf.map((one) => [Number(one.dataset.column), columns.all[one.dataset.column].choices[one.value]]),
      ranges: ranges.filter(([, low, high]) => low !== -Infinity || high !== Infinity),
    };
  }

  function choose(at, on) {
    if (on) chosen.add(at);
    else chosen.delete(at);
  }

  function box(at) {
    const input = document.createElement("input");
    input.type = "checkbox";
    input.checked = chosen.has(at);
    input.setAttribute("aria-label", `Select ${rows[at].slice(0, columns.named).join(", ")}`);
    input.addEventListener("change", () => {
      choose(at, input.checked);
      tell();
    });
    return input;
  }

  function picture(at) {
    if (!pictures[at]) return "";
    const img = document.createElement("img");
    img.src = pictures[at];
    img.alt = `example ${rows[at][0]}`;
    return img;
  }

  function shortly(number, places) {
    const least = 10 ** -places;
    return number > 0 && number < least / 2 ? `<${least}` : number.toFixed(places);
  }

  function line(at) {
    const tr = document.createElement("tr");
    const add = (content, kind) => {
      const td = document.createElement("td");
      td.className = kind;
      td.append(content);
      tr.append(td);
    };
    add(box(at), "");
    if (pictured) add(picture(at), "");
    rows[at].forEach((one, column) => {
      const { kind, places } = columns.all[column];
      add(kind === "number" ? shortly(one, places) : one, { number: "n", words: "text", text: "id" }[kind]);
    });
    return tr;
  }

  function tell() {
    const size = Number(find("size").value);
    const pages = Math.max(1, Math.ceil(shown.length / size));
    const count = (n) => n.toLocaleString("en");
    find("count").textContent = `${count(shown.length)} of ${count(rows.length)} shown, ${count(chosen.size)} selected`;
    find("page").textContent = `page ${count(page + 1)} of ${count(pages)}`;
    find("back").disabled = page === 0;
    find("next").disabled = page >= pages - 1;
    find("save-chosen").disabled = find("clear").disabled = chosen.size === 0;
    find("save-shown").disabled = shown.length === 0;
    const on = shown.filter((at) => chosen.has(at)).length;
    find("all").checked = on > 0 && on === shown.length;
    find("all").indeterminate = on > 0 && on < shown.length;
  }

  function draw() {
    const size = Number(find("size").value);
    body.replaceChildren(...shown.slice(page * size, (page + 1) * size).map(line));
    tell();
  }

  function look() {
    const meets = new Set(filtered(rows, asked()));
    shown = order.filter((at) => meets.has(at));
    page = 0;
    draw();
  }

  function save(places) {
    const text = csv(columns.all.map((one) => one.name), places.map((at) => rows[at]));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  function turn(by) {
    page += by;
    draw();
  }

  every("head").forEach((head, column) => {
    sorts(head, false, (down) => {
      order = sorted([...rows.keys()], (at) => rows[at][column], down);
      look();
    });
  });
  find("filters").addEventListener("input", look);
  find("size").addEventListener("input", look);
  find("all").addEventListener("change", (event) => {
    for (const at of shown) choose(at, event.target.checked);
    draw();
  });
  find("clear").addEventListener("click", () => {
    chosen.clear();
    draw();
  });
  find("reset").addEventListener("click", () => {
    for (const input of find("filters").querySelectorAll("input, select")) input.value = "";
    look();
  });
  find("back").addEventListener("click", () => turn(-1));
  find("next").addEventListener("click", () => turn(1));
  find("save-chosen").addEventListener("click", () => save(order.filter((at) => chosen.has(at))));
  find("save-shown").addEventListener("click", () => save(shown));
  if (pictured) find("pictured").hidden = false;
  section.hidden = false;
  for (const one of document.querySelectorAll('[data-is="without-script"]')) one.hidden = true;
  look();
}

for (const section of document.querySelectorAll("#flagged")) flagged(section);
