// Hibernate: a schema made, updated and validated from classes, associations, queries, versions,
// locks, batches, projections.
import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.boot.MetadataSources;
import org.hibernate.boot.registry.StandardServiceRegistryBuilder;
import org.hibernate.exception.ConstraintViolationException;
import org.hibernate.type.SqlTypes;

public class Hibernate {
  public enum Kind { PERSON, SHELTER }

  @Entity(name = "Owner") @Table(name = "owner")
  public static class Owner {
    @Id @GeneratedValue(strategy = GenerationType.IDENTITY) public Integer id;
    @Column(length = 40, nullable = false, unique = true) public String name;
    @Enumerated(EnumType.STRING) public Kind kind = Kind.PERSON;
    @Version public int version;
    public String getName() { return name; }
    public int getVersion() { return version; }
    @OneToMany(mappedBy = "owner", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("name") public List<Pet> pets = new ArrayList<>();
  }

  @Entity(name = "Pet") @Table(name = "pet", indexes = @Index(name = "pet_name", columnList = "name, weight"))
  public static class Pet {
    @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) public Long id;
    public String name;
    @Column(precision = 8, scale = 2) public BigDecimal weight;
    public LocalDate born;
    public UUID chip = UUID.randomUUID();
    public byte[] photo = {1, 0, -1};
    @JdbcTypeCode(SqlTypes.JSON) public Map<String, String> marks;
    public String[] tags = {"a", "b,c"};
    @ManyToOne(fetch = FetchType.LAZY, optional = false) public Owner owner;
  }

  static void equal(Object found, Object wanted) {
    if (!found.equals(wanted)) throw new AssertionError(found + " is not " + wanted);
  }

  static SessionFactory factory(String schema) {
    var settings = new StandardServiceRegistryBuilder()
        .applySetting("jakarta.persistence.jdbc.url", "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/db?sslmode=disable")
        .applySetting("jakarta.persistence.jdbc.user", "tester").applySetting("hibernate.hbm2ddl.auto", schema)
        .applySetting("hibernate.jdbc.batch_size", 50).applySetting("hibernate.order_inserts", true)
        .applySetting("hibernate.hbm2ddl.halt_on_error", true).build();
    return new MetadataSources(settings).addAnnotatedClass(Owner.class).addAnnotatedClass(Pet.class).buildMetadata().buildSessionFactory();
  }

  public static void main(String[] arguments) {
    java.util.logging.Logger.getLogger("org.hibernate").setLevel(java.util.logging.Level.SEVERE);
    factory("update").close();
    factory("update").close();
    try (var factory = factory("validate")) {
      factory.inTransaction(session -> {
        for (var name : List.of("ada", "bob")) {
          var owner = new Owner();
          owner.name = name;
          for (int i = 0; i < 100; i++) {
            var pet = new Pet();
            pet.name = "p" + i;
            pet.weight = new BigDecimal(i).add(new BigDecimal("0.50"));
            pet.born = LocalDate.of(2024, 2, 29);
            pet.marks = Map.of("i", "" + i);
            pet.owner = owner;
            owner.pets.add(pet);
          }
          session.persist(owner);
        }
      });
      factory.inTransaction(session -> {
        var owner = session.createSelectionQuery("from Owner o join fetch o.pets where o.name = :name", Owner.class)
            .setParameter("name", "ada").getSingleResult();
        equal(owner.pets.size(), 100);
        var pet = owner.pets.get(1);
        equal(pet.weight, new BigDecimal("1.50"));
        equal(pet.marks, Map.of("i", "1"));
        equal(pet.tags[1], "b,c");
        equal((int) pet.photo[2], -1);
        owner.kind = Kind.SHELTER;
        owner.pets.remove(0);
      });
      factory.inTransaction(session -> {
        var sums = session.createSelectionQuery("select o.name, count(p), sum(p.weight) from Owner o join o.pets p group by o.name having count(p) > 1 order by o.name", Object[].class).getResultList();
        equal(sums.get(0)[1], 99L);
        equal(sums.get(1)[2], new BigDecimal("5000.00"));
        var page = session.createSelectionQuery("from Pet where weight between 10 and 20 order by weight desc, id", Pet.class).setFirstResult(2).setMaxResults(3).getResultList();
        equal(page.size(), 3);
        equal(page.get(0).owner.getName().length(), 3);
        var best = session.createSelectionQuery("select p.name from (select q.name as name, row_number() over (partition by q.owner.id order by q.weight desc) as place from Pet q) p where p.place = 1", String.class).getResultList();
        equal(best, List.of("p99", "p99"));
        var locked = session.find(Owner.class, 1, LockModeType.PESSIMISTIC_WRITE);
        equal(locked.getVersion(), 1);
        equal(session.createMutationQuery("update Pet set weight = weight + 1 where owner.id = 2").executeUpdate(), 100);
        equal(session.createMutationQuery("delete from Pet where name = 'p99'").executeUpdate(), 2);
        equal(session.createNativeQuery("SELECT count(*) FROM pet WHERE marks->>'i' = '7'", Long.class).getSingleResult(), 2L);
      });
      try {
        factory.inTransaction(session -> {
          var owner = new Owner();
          owner.name = "bob";
          session.persist(owner);
        });
        throw new AssertionError("a name twice");
      } catch (ConstraintViolationException error) {
        equal(error.getSQLState(), "23505");
      }
      try (var one = factory.openSession(); var other = factory.openSession()) {
        var first = one.find(Owner.class, 2);
        var second = other.find(Owner.class, 2);
        one.beginTransaction();
        first.name = "one";
        one.getTransaction().commit();
        other.beginTransaction();
        second.name = "other";
        try {
          other.getTransaction().commit();
          throw new AssertionError("a change of an old version");
        } catch (OptimisticLockException expected) {
          equal(factory.fromTransaction(session -> session.find(Owner.class, 2).name), "one");
        }
      }
    }
    factory("create-drop").close();
  }
}
