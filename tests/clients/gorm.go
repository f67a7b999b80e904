// GORM: tables from structs and their migration, associations, batches, upserts, nested
// transactions, row locks, raw rows.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Owner struct {
	ID        uint   `gorm:"primaryKey"`
	Name      string `gorm:"size:60;uniqueIndex;not null"`
	CreatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
	Pets      []Pet          `gorm:"constraint:OnDelete:CASCADE"`
}

type Pet struct {
	ID      int64   `gorm:"primaryKey;autoIncrement"`
	OwnerID uint    `gorm:"index:pet_owner_name,priority:1"`
	Name    string  `gorm:"index:pet_owner_name,priority:2;default:'none';comment:as it is called"`
	Weight  float64 `gorm:"type:numeric(8,2);check:weight_positive,weight > 0"`
	Marks   []byte  `gorm:"type:jsonb"`
	Tags    []Tag   `gorm:"many2many:pet_tags;constraint:OnDelete:CASCADE"`
	Born    *time.Time
}

type Tag struct {
	Name string `gorm:"primaryKey;type:varchar(20)"`
}

// PetLater is Pet as a later version of a program has it.
type PetLater struct {
	Pet
	Sold bool   `gorm:"not null;default:false"`
	Chip string `gorm:"type:uuid;default:gen_random_uuid();unique"`
}

func (PetLater) TableName() string { return "pets" }

func need(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(a, b any) {
	if fmt.Sprint(a) != fmt.Sprint(b) {
		panic(fmt.Sprintf("%v is not %v", a, b))
	}
}

func main() {
	dsn := fmt.Sprintf("host=127.0.0.1 port=%s user=tester dbname=db sslmode=disable", os.Getenv("PGPORT"))
	if host := os.Getenv("PGHOST"); host != "127.0.0.1" {
		dsn = fmt.Sprintf("host=%s user=%s dbname=%s sslmode=disable", host, os.Getenv("PGUSER"), os.Getenv("PGDATABASE"))
	}
	db, err := gorm.Open(postgres.Open(dsn), &gorm.Config{TranslateError: true, Logger: logger.Default.LogMode(logger.Silent)})
	need(err)
	for range 2 {
		need(db.AutoMigrate(&Owner{}, &Pet{}, &Tag{}))
	}
	equal(db.Migrator().HasTable("pet_tags"), true)
	equal(db.Migrator().HasIndex(&Pet{}, "pet_owner_name"), true)
	equal(db.Migrator().HasConstraint(&Pet{}, "weight_positive"), true)

	owners := []Owner{{Name: "ada"}, {Name: "bob"}}
	for i := range owners {
		for j := range 20 {
			tags := []Tag{{Name: fmt.Sprint("t", j%3)}}
			marks := fmt.Appendf(nil, `{"j": %d}`, j)
			owners[i].Pets = append(owners[i].Pets, Pet{Name: fmt.Sprint("p", j), Weight: float64(j) + 0.5, Marks: marks, Tags: tags})
		}
	}
	need(db.Create(&owners).Error)
	many := make([]Pet, 1000)
	for i := range many {
		many[i] = Pet{OwnerID: owners[0].ID, Name: "many", Weight: 1, Marks: []byte("{}")}
	}
	need(db.CreateInBatches(&many, 300).Error)
	equal(many[999].ID > many[0].ID, true)

	var found Owner
	need(db.Preload("Pets", func(part *gorm.DB) *gorm.DB { return part.Where("name <> ?", "many").Order("weight DESC") }).
		Preload("Pets.Tags").First(&found, "name = ?", "ada").Error)
	equal(len(found.Pets), 20)
	equal(found.Pets[0].Weight, 19.5)
	equal(found.Pets[0].Tags[0].Name, "t1")
	type sum struct {
		Name string
		N    int64
		W    float64
	}
	var sums []sum
	need(db.Model(&Pet{}).Select("owners.name, count(*) AS n, sum(weight) AS w").Joins("JOIN owners ON owners.id = pets.owner_id").
		Group("owners.name").Having("count(*) > ?", 1).Order("owners.name").Scan(&sums).Error)
	equal(sums, []sum{{"ada", 1020, 1200}, {"bob", 20, 200}})
	err = db.Create(&Owner{Name: "bob"}).Error
	equal(errors.Is(err, gorm.ErrDuplicatedKey), true)
	equal(errors.Is(db.Create(&Pet{OwnerID: 99, Weight: 1, Marks: []byte("1")}).Error, gorm.ErrForeignKeyViolated), true)
	equal(errors.Is(db.Create(&Pet{OwnerID: owners[0].ID, Weight: -1, Marks: []byte("1")}).Error, gorm.ErrCheckConstraintViolated), true)
	need(db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"created_at"})}).
		Create(&Owner{Name: "bob", CreatedAt: time.Unix(0, 0)}).Error)
	need(db.First(&found, "name = ?", "ada").Error)

	err = db.Transaction(func(tx *gorm.DB) error {
		var locked Pet
		need(tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).Where("name = ?", "p3").First(&locked).Error)
		need(tx.Model(&locked).Update("weight", gorm.Expr("weight + ?", 1)).Error)
		inner := tx.Transaction(func(part *gorm.DB) error {
			need(part.Where("1 = 1").Delete(&Pet{}).Error)
			return errors.New("undo")
		})
		equal(inner, "undo")
		return nil
	})
	need(err)
	var count int64
	need(db.Model(&Pet{}).Count(&count).Error)
	equal(count, 1040)
	need(db.Delete(&owners[1]).Error)
	need(db.Model(&Owner{}).Count(&count).Error)
	equal(count, 1)
	need(db.Unscoped().Delete(&owners[1]).Error)
	need(db.Where("marks->>'j' = ?", "5").Find(&many).Error)
	equal(len(many), 1)
	rows, err := db.Raw("SELECT name FROM pets WHERE name IN ? ORDER BY weight", []string{"p1", "p2"}).Rows()
	need(err)
	names := ""
	for rows.Next() {
		var name string
		need(rows.Scan(&name))
		names += name
	}
	need(rows.Close())
	equal(names, "p1p2")
	var batches int
	need(db.Where("name = ?", "many").FindInBatches(&many, 400, func(*gorm.DB, int) error { batches++; return nil }).Error)
	equal(batches, 3)

	for range 2 {
		need(db.AutoMigrate(&PetLater{}))
	}
	kinds, err := db.Migrator().ColumnTypes(&PetLater{})
	need(err)
	for _, kind := range kinds {
		if kind.Name() == "weight" {
			precision, scale, _ := kind.DecimalSize()
			equal([]int64{precision, scale}, []int64{8, 2})
		}
	}
	need(db.Migrator().RenameColumn(&PetLater{}, "sold", "gone"))
	need(db.Migrator().DropColumn(&PetLater{}, "gone"))
	need(db.Migrator().DropIndex(&Pet{}, "pet_owner_name"))
	need(db.Migrator().DropConstraint(&Pet{}, "weight_positive"))
	tables, err := db.Migrator().GetTables()
	need(err)
	equal(len(tables), 4)
	need(db.Migrator().DropTable(&Owner{}, &Pet{}, &Tag{}, "pet_tags"))
}
