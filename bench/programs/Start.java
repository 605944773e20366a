// Compiles itself, starts and does a little of everything: java Start.java ROUNDS
// SPDX-License-Identifier: MIT
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Start {
  record Item(int number, String name, double price) {}

  interface Visitor { double visit(Item item); }

  public static void main(String[] arguments) {
    int rounds = Integer.parseInt(arguments[0]);
    Map<String, List<Item>> byName = new HashMap<>();
    long state = 1;
    double total = 0;
    for (int round = 0; round < rounds; round++) {
      List<Item> items = new ArrayList<>();
      for (int i = 0; i < 200; i++) {
        state = (state * 6364136223846793005L + 1442695040888963407L);
        int draw = (int) (state >>> 40);
        items.add(new Item(draw, "item " + draw % 500, draw % 10000 / 100.0));
      }
      Visitor visitor = round % 2 == 0 ? item -> item.price() : item -> item.number() % 7;
      for (Item item : items) {
        total += visitor.visit(item);
        byName.computeIfAbsent(item.name(), name -> new ArrayList<>()).add(item);
      }
    }
    Map<String, Integer> sizes = new TreeMap<>(byName.entrySet().stream()
        .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().size())));
    String shown = IntStream.range(0, 5).mapToObj(i -> "item " + i + ": " + sizes.get("item " + i))
        .collect(Collectors.joining(", "));
    System.out.printf("%d names, total %.2f, %s%n", sizes.size(), total, shown);
  }
}
